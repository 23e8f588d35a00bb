"""What `torch.cuda` says about the GPU, and what stands in for its streams, events and generators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from torch import accelerator, cuda, distributed, serialization
from torch.utils.data import DataLoader

from amplint.torchlib.policy import words
from amplint.trace.dry.devices import CPU, CUDA, moved
from amplint.trace.dry.replaced import replaced
from amplint.trace.gpus import Gpu
from amplint.trace.placement import placement

_GIB = 2**30
_NOTHING = words(
    "_lazy_init init synchronize empty_cache set_device ipc_collect manual_seed manual_seed_all seed seed_all "
    "reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats "
    "set_per_process_memory_fraction set_stream"
)
"""Functions of torch.cuda that have nothing to do."""
_ZERO = words(
    "current_device _exchange_device _maybe_exchange_device memory_allocated max_memory_allocated memory_reserved "
    "max_memory_reserved memory_cached max_memory_cached utilization"
)
_TENSORS = words("Float Double Half BFloat16 Long Int Short Char Byte Bool")


class Stream:
    """A stream or event: everything is done as soon as it is asked for."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = CUDA

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def query(self) -> bool:
        """All work is done."""
        return True

    def elapsed_time(self, end: Stream) -> float:
        """Milliseconds, which are not measured."""
        return 0.0

    def is_capturing(self) -> bool:
        """No graph is being captured."""
        return False

    def record_event(self, event: Stream | None = None) -> Stream:
        """The event that was recorded."""
        return event or Stream()

    def _nothing(self, *_: Any, **__: Any) -> None:
        return None

    record = wait = wait_event = wait_stream = synchronize = _nothing


class Generator(torch.Generator):
    """A generator of random numbers of the CPU, also where one of the GPU is asked for."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        """Make one for the CPU."""
        return super().__new__(cls, CPU)  # type: ignore[call-arg]


@contextlib.contextmanager
def cuda_module(gpu: Gpu) -> Iterator[None]:
    """Let `torch.cuda`, `torch.accelerator` and what asks them describe `gpu`."""
    functions = _functions(gpu)
    shared = {name: function for name, function in functions.items() if hasattr(accelerator, name)}
    parallel = import_module("torch.nn.parallel.data_parallel")
    with contextlib.ExitStack() as stack:
        for owner, attributes in (
            (cuda, functions),
            (accelerator, shared | {"current_accelerator": _always(torch.device("cuda"))}),
            (accelerator, {"current_device_index": _always(0), "set_device_index": _always(None)}),
            (cuda.amp.common, {"amp_definitely_not_available": _always(False)}),
            (torch, {"Generator": Generator}),
            (torch.version, {"cuda": "13.0"}),
            (parallel, {"_get_available_device_type": _always(None)}),
            (torch._C, {"_group_tensors_by_device_and_dtype": _grouping()}),
            (DataLoader, {"__init__": _without_pinning(DataLoader.__init__)}),
        ):
            stack.enter_context(replaced(owner, **attributes))
        if distributed.is_available():
            original = distributed.init_process_group
            stack.enter_context(replaced(distributed, init_process_group=_with_gloo(original)))
        stack.enter_context(_checkpoints())
        yield


def _functions(gpu: Gpu) -> dict[str, Any]:
    major, minor = gpu.capability
    properties = SimpleNamespace(
        name=gpu.name,
        major=major,
        minor=minor,
        total_memory=gpu.memory * _GIB,
        multi_processor_count=gpu.multiprocessors,
    )
    return {
        **{name: _always(None) for name in _NOTHING},
        **{name: _always(0) for name in _ZERO},
        **{f"{kind}Tensor": _maker(getattr(torch, f"{kind}Tensor")) for kind in _TENSORS},
        "is_available": _always(True),
        "is_initialized": _always(True),
        "is_current_stream_capturing": _always(False),
        "device_count": _always(1),
        "_check_bf16_tensor_supported": _always(True),
        "get_device_properties": _always(properties),
        "get_device_name": _always(gpu.name),
        "get_device_capability": _always(gpu.capability),
        "get_arch_list": _always([f"sm_{major}{minor}"]),
        "mem_get_info": _always((properties.total_memory, properties.total_memory)),
        "memory_stats": _always({}),
        "memory_summary": _always(""),
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        "initial_seed": torch.initial_seed,
        "Stream": Stream,
        "Event": Stream,
        "stream": lambda *_: Stream(),
        "current_stream": lambda *_: Stream(),
        "default_stream": lambda *_: Stream(),
    }


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _maker(constructor: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *args: moved(constructor(*args), True)


@contextlib.contextmanager
def _checkpoints() -> Iterator[None]:
    """Let checkpoints say what lay on the GPU, and load it to there."""

    def tag(storage: Any) -> str | None:
        return "cuda:0" if placement.holds(_untyped(storage)) else None

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


def _grouping() -> Callable[..., Any]:
    group: Any = torch._C._group_tensors_by_device_and_dtype

    def grouped(lists: Any, with_indices: bool = False) -> Any:
        groups = group(lists, with_indices)
        return {
            (CUDA if placement.on_gpu(tensors[0][0]) else device, dtype): (tensors, indices)
            for (device, dtype), (tensors, indices) in groups.items()
        }

    return grouped


def _without_pinning(init: Callable[..., None]) -> Callable[..., None]:
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["pin_memory"] = False
        init(self, *args, **kwargs)

    return made


def _with_gloo(init: Callable[..., None]) -> Callable[..., None]:
    def begun(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        init("gloo", *args, **kwargs)

    return begun
