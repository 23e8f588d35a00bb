"""Where tensors lie. In a dry run some lie on a GPU that is pretended, which their storage tells, shared by views."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator

import torch
from torch._C import _functorch
from torch.multiprocessing.reductions import StorageWeakRef

_SWEEP = 4096
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
    """The storages that lie on the GPU. A weak reference keeps the address of each from being used again.

    `gpu` is its device, and there are `gpus`: ranks of one machine have one each. `process` is the one that has put
    something there.
    `wanted` says where new tensors of this thread are to lie, None where their operands decide; `around`, where those
    without operands lie that a function of PyTorch makes for itself.
    """

    def __init__(self) -> None:
        self.gpu, self.gpus = torch.device("cuda", 0), 1
        self._wishes = _Wishes()
        self.process: int | None = None
        self._storages: dict[int, StorageWeakRef] = {}
        self._limit = _SWEEP

    def on_gpu(self, tensor: torch.Tensor) -> bool:
        """Whether `tensor` lies on the GPU; one without a storage does not."""
        storage = _storage(tensor)
        return storage is not None and self.holds(storage)

    def put(self, tensor: torch.Tensor, *, besides: Iterable[torch.Tensor] = ()) -> None:
        """Let `tensor` and what shares its storage lie on the GPU from now on, unless one of `besides` shares it."""
        storage = _storage(tensor)
        if storage is not None and not any(_shares(other, storage) for other in besides):
            self.take(storage)

    def holds(self, storage: torch.UntypedStorage) -> bool:
        """Whether `storage` lies on the GPU."""
        return storage._cdata in self._storages

    def take(self, storage: torch.UntypedStorage) -> None:
        """Let `storage` lie on the GPU. Raises RuntimeError in a process that was forked after one did before."""
        if self.holds(storage):
            return
        if self.process not in (None, os.getpid()):
            raise RuntimeError(_FORKED)
        self.process = os.getpid()
        if len(self._storages) >= self._limit:
            known = self._storages.items()
            self._storages = {key: held for key, held in known if not held.expired()}  # type: ignore[no-untyped-call]
            self._limit = max(_SWEEP, 2 * len(self._storages))
        self._storages[storage._cdata] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]

    @property
    def used(self) -> bool:
        """Whether anything lies on the GPU."""
        return bool(self._storages)

    @property
    def wanted(self) -> bool | None:
        """Whether new tensors are to lie on the GPU; None where their operands decide."""
        return self._wishes.wanted

    @property
    def around(self) -> bool:
        """Whether those without operands lie there."""
        return self._wishes.around

    @contextlib.contextmanager
    def making(self, wanted: bool | None, *, around: bool = False) -> Iterator[None]:
        """Say where tensors lie that are made in this context."""
        wishes = self._wishes
        before = wishes.wanted, wishes.around
        wishes.wanted, wishes.around = wanted, around
        try:
            yield
        finally:
            wishes.wanted, wishes.around = before


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """That of `tensor`: of its values where it is sparse, of its part on this rank, of what it wraps in `torch.func`.

    None where it has none.
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
    """Whether the CPU's memory holds `tensor`, as it holds all in a dry run."""
    if tensor.is_cpu:
        return True
    storage = _storage(tensor)
    return storage is not None and storage.device.type == "cpu"
