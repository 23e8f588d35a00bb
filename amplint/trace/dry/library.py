"""Other parts of PyTorch that query a GPU: checkpoints, data loaders, profilers, processes, grouping by device."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
from torch import distributed, multiprocessing, nn, serialization
from torch.autograd import profiler
from torch.multiprocessing.spawn import ProcessRaisedException
from torch.utils._pytree import tree_leaves

from amplint.trace.dry.beyond import refused
from amplint.trace.placement import placement
from amplint.trace.replaced import replaced


@contextlib.contextmanager
def library() -> Iterator[None]:
    """Replace these parts of PyTorch for a run without a GPU."""
    data_parallel = import_module("torch.nn.parallel.data_parallel")
    spawning = import_module("torch.multiprocessing.spawn")
    pinning = import_module("torch.utils.data._utils.pin_memory")
    with contextlib.ExitStack() as stack:
        for owner, attributes in (
            (data_parallel, {"_get_available_device_type": lambda: None}),
            (pinning, {"pin_memory": _pinned}),
            (torch.UntypedStorage, {"cuda": _stored}),
            (multiprocessing, {"start_processes": _started}),
            (spawning, {"start_processes": _started}),
            (profiler.profile, {"__init__": _without_device(profiler.profile.__init__)}),
            (torch._C, {"_group_tensors_by_device_and_dtype": _grouping(), **_TRANSFERS}),
            (torch._C, {"_get_accelerator": lambda *_: torch.device("cuda")}),
            (torch.backends.cudnn, {"version": lambda: 91002}),
            (torch, {"_use_cudnn_rnn_flatten_weight": lambda: False}),
            (torch.backends.cuda, {"cufft_plan_cache": _Plans(), "preferred_linalg_library": _kept}),
        ):
            stack.enter_context(replaced(owner, **attributes))
        if distributed.is_available():
            gloo = {
                "init_process_group": _with_gloo(distributed.init_process_group),
                "new_group": _with_gloo(distributed.new_group),
                "is_nccl_available": lambda: True,
            }
            for owner in (distributed, distributed.distributed_c10d, import_module("torch.distributed.device_mesh")):
                there = {name: function for name, function in gloo.items() if hasattr(owner, name)}
                stack.enter_context(replaced(owner, **there))
            parallel = nn.parallel.DistributedDataParallel
            ways = {name: _on_gpu(vars(parallel)[name]) for name in ("__init__", "_pre_forward")}
            stack.enter_context(replaced(parallel, **ways))
        stack.enter_context(_checkpoints())
        yield


@contextlib.contextmanager
def _checkpoints() -> Iterator[None]:
    """Save the placement of GPU tensors in checkpoints, and restore it."""

    def tag(storage: Any) -> str | None:
        return str(placement.gpu) if placement.holds(_untyped(storage)) else None

    def restore(storage: Any, location: str) -> Any:
        if not location.startswith("cuda"):
            return None
        placement.take(_untyped(storage))
        return storage

    registry = serialization._package_registry
    before = registry[:]
    serialization.register_package(0, tag, restore)
    try:
        yield
    finally:
        registry[:] = before


def _untyped(storage: Any) -> torch.UntypedStorage:
    return storage._untyped_storage if isinstance(storage, torch.TypedStorage) else storage


def _stored(storage: torch.UntypedStorage, *_: Any, **__: Any) -> torch.UntypedStorage:
    """A copy of `storage` on the GPU."""
    copied: torch.UntypedStorage = storage.clone()  # type: ignore[no-untyped-call]
    placement.take(copied)
    return copied


def _grouping() -> Callable[..., Any]:
    group: Any = torch._C._group_tensors_by_device_and_dtype

    def grouped(lists: Any, with_indices: bool = False) -> Any:
        groups = group(lists, with_indices)
        return {
            (placement.gpu if placement.on_gpu(tensors[0][0]) else device, dtype): (tensors, indices)
            for (device, dtype), (tensors, indices) in groups.items()
        }

    return grouped


_TRANSFERS: dict[str, Callable[..., Any]] = {
    "_broadcast": lambda tensor, devices: (tensor,) * len(devices),
    "_broadcast_coalesced": lambda tensors, devices, *_: [list(tensors) for _ in devices],
    "_scatter": lambda tensor, devices, sizes=None, dim=0, *_: tensor.chunk(len(devices), dim),
    "_gather": lambda tensors, dim, *_: torch.cat(list(tensors), dim),
}
"""Functions that move tensors between GPUs, of which there is one."""


class _Plans:
    """Substitute for cuFFT's plan cache."""

    size, max_size = 0, 4096

    def __getitem__(self, device: Any) -> _Plans:
        return self

    def clear(self) -> None:
        """Do nothing: there are no plans."""


def _kept(*_: Any) -> Any:
    return torch._C._LinalgBackend.Default


def _pinned(data: Any, device: Any = None) -> Any:
    """`data` unchanged. Raises RuntimeError if it is on the GPU."""
    for value in tree_leaves(data):
        if isinstance(value, torch.Tensor) and placement.on_gpu(value):
            raise RuntimeError("cannot pin tensors of the GPU; only dense CPU tensors can be pinned")
    return data


class _Ended:
    """Substitute for the context of processes that have ended."""

    processes: tuple[Any, ...] = ()

    def join(self, *_: Any, **__: Any) -> bool:
        """Whether all processes have ended, which is true."""
        return True


_start: Callable[..., Any] = import_module("torch.multiprocessing.spawn").start_processes


def _started(
    fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: bool = True, *rest: Any, **more: Any
) -> Any:
    """Run a single process in this one, which is emulated and traced. Raises CannotFollow if several need a GPU."""
    if nprocs != 1:
        try:
            return _start(fn, args, nprocs, join, *rest, **more)
        except ProcessRaisedException as failure:
            if "CUDA" not in str(failure):
                raise
            raise refused("several processes that a script starts", "Start it by torchrun, or with one.") from failure
    fn(0, *args)
    return None if join else _Ended()


def _without_device(init: Callable[..., None]) -> Callable[..., None]:
    """A profiler that queries no GPU events. PyTorch had `use_cuda` until 2.13."""
    off = {"use_cuda": False, "use_device": None}
    taken = {name: value for name, value in off.items() if name in inspect.signature(init).parameters}

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **{**kwargs, **taken})

    return made


def _with_gloo(original: Callable[..., Any]) -> Callable[..., Any]:
    """`original` with gloo instead of any other backend; groups may consist of processes without a GPU."""
    position = 2 if original.__name__ == "new_group" else 0

    def begun(*args: Any, **kwargs: Any) -> Any:
        args = (*args[:position], "gloo", *args[position + 1 :]) if len(args) > position else args
        kwargs = {name: value for name, value in kwargs.items() if name not in ("pg_options", "device_id")}
        if len(args) <= position:
            kwargs["backend"] = "gloo"
        return original(*args, **kwargs)

    return begun


def _on_gpu(method: Callable[..., Any]) -> Callable[..., Any]:
    """`method` of a module: tensors made by PyTorch's C++ code in it are on the GPU if a parameter is."""

    def run(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        module = (args[0] if args else kwargs["module"]) if method.__name__ == "__init__" else self
        with placement.making(None, around=any(map(placement.on_gpu, module.parameters()))):
            return method(self, *args, **kwargs)

    return run
