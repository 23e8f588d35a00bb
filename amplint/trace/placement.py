"""Placement of tensors. In a dry run some are on the simulated GPU, by their storage, which views share."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Iterable, Iterator

import torch
from torch._C import _functorch

_FORKED = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start "
    "method"
)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_COMPRESSED = {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}


class _Wishes(threading.local):
    wanted: bool | None = None
    around = False


class Placement:
    """The storages on the GPU. A storage is removed when it is destroyed, before its address can be reused.

    `gpu` is the device, one of `gpus`: each rank of a machine has one. `process` is the first process that put
    something there.
    `wanted` is the placement of new tensors of this thread, None if their operands decide; `around`, the placement of
    tensors without operands that a function of PyTorch creates internally.
    """

    def __init__(self) -> None:
        self.gpu, self.gpus = torch.device("cuda", 0), 1
        self._wishes = _Wishes()
        self.process: int | None = None
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def on_gpu(self, tensor: torch.Tensor) -> bool:
        """Whether `tensor` is on the GPU; False for one without a storage."""
        storage = _storage(tensor)
        return storage is not None and self.holds(storage)

    def put(self, tensor: torch.Tensor, *, besides: Iterable[torch.Tensor] = ()) -> None:
        """Put `tensor` and all views of its storage on the GPU, unless one of `besides` shares the storage."""
        storage = _storage(tensor)
        if storage is not None and not any(_shares(other, storage) for other in besides):
            self.take(storage)

    def holds(self, storage: torch.UntypedStorage) -> bool:
        """Whether `storage` is on the GPU."""
        return storage._cdata in self._storages

    def take(self, storage: torch.UntypedStorage) -> None:
        """Put `storage` on the GPU. Raises RuntimeError in a process forked after one was put there."""
        if self.holds(storage):
            return
        if self.process not in (None, os.getpid()):
            raise RuntimeError(_FORKED)
        self.process = os.getpid()
        key = storage._cdata
        self._storages[key] = weakref.ref(storage, functools.partial(self._storages.pop, key))

    @property
    def used(self) -> bool:
        """Whether anything is on the GPU."""
        return bool(self._storages)

    @property
    def wanted(self) -> bool | None:
        """Whether new tensors are created on the GPU; None if their operands decide."""
        return self._wishes.wanted

    @property
    def around(self) -> bool:
        """Whether tensors without operands are created there."""
        return self._wishes.around

    @contextlib.contextmanager
    def making(self, wanted: bool | None, *, around: bool = False) -> Iterator[None]:
        """Set the placement of new tensors in this context."""
        wishes = self._wishes
        before = wishes.wanted, wishes.around
        wishes.wanted, wishes.around = wanted, around
        try:
            yield
        finally:
            wishes.wanted, wishes.around = before


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The storage of `tensor`: of a sparse tensor's values, of a distributed one's local part, of a wrapped tensor.

    None if it has none.
    """
    if type(tensor) not in _PLAIN:
        tensor = getattr(tensor, "_local_tensor", tensor)
    try:
        return tensor.untyped_storage()
    except NotImplementedError:
        pass
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        if tensor.layout == torch.sparse_coo:
            return tensor._values().untyped_storage()
        if tensor.layout in _COMPRESSED:
            return tensor.values().untyped_storage()
    if _functorch.is_functorch_wrapped_tensor(tensor):
        return _storage(_functorch.get_unwrapped(tensor))
    return None


def _shares(tensor: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    own = _storage(tensor)
    return own is not None and own._cdata == storage._cdata


placement = Placement()


def device_type(tensor: torch.Tensor) -> str:
    """`cuda`, `cpu`, ..., also in a dry run."""
    if not tensor.is_cpu:
        return tensor.device.type
    return "cuda" if placement._storages and placement.on_gpu(tensor) else "cpu"


def is_on_host(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is in the CPU's memory, as all are in a dry run."""
    if tensor.is_cpu:
        return True
    storage = _storage(tensor)
    return storage is not None and storage.device.type == "cpu"
