"""Float32 numbers beside those of a run: what each tensor would hold if nothing had been rounded to half."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from amplint.records import dataclass
from amplint.trace.partings import Culprit
from amplint.trace.tally import HALF

_ROOM = 2**26
"""Bytes of shadows that are made between two looks for those whose storages are gone, at least."""
_SHARE = 4
"""And at least the bytes of all shadows by this."""


@dataclass(slots=True)
class Shadow:
    """The `numbers` of a storage whose elements have `dtype`, in float32 (float64 for float64), in one dimension.

    `error` is the relative error of what was written there last. `culprit` is what is to blame for one that rounding
    does not explain, `zeroed` for a 0 that should be none. `cancelled` is how much larger the numbers were that are
    left of a sum: errors are relative to those.
    """

    storage: StorageWeakRef
    dtype: torch.dtype
    numbers: Tensor
    error: float = 0.0
    culprit: Culprit | None = None
    zeroed: Culprit | None = None
    cancelled: float = 1.0


class Shadows:
    """The shadows of storages, so that views and what is written through them have their part of it.

    A tensor without one holds what it would hold in float32, but for being in half itself.
    """

    def __init__(self) -> None:
        self._shadows: dict[int, Shadow] = {}
        self._room = _ROOM

    def find(self, tensor: Tensor) -> Shadow | None:
        """The shadow of the storage of `tensor`."""
        if not self._shadows or tensor.layout is not torch.strided:
            return None
        shadow = self._shadows.get(tensor.untyped_storage()._cdata)
        return shadow if shadow is not None and shadow.dtype is tensor.dtype else None

    def exact(self, tensor: Tensor) -> Tensor:
        """What `tensor` would hold in float32, as a view of the shadow where it has one."""
        shadow = self.find(tensor)
        if shadow is not None:
            return shadow.numbers.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        return tensor.float() if tensor.dtype in HALF else tensor

    def prepare(self, tensor: Tensor) -> None:
        """Give `tensor`, which is going to be written to, a shadow of what it holds now."""
        if self.find(tensor) is None:
            whole = tensor.as_strided((_elements(tensor),), (1,), 0)
            self._put(tensor, whole.to(_wide(tensor.dtype), copy=True))

    def keep(self, tensor: Tensor, exact: Tensor) -> Shadow | None:
        """Give `tensor`, which is new, the shadow `exact`, which nothing else uses.

        None where that cannot be, since elements of `tensor` lie over each other.
        """
        elements = _elements(tensor)
        alike = exact.stride() == tensor.stride() and exact.storage_offset() == tensor.storage_offset() == 0
        if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.size(), strict=True)):
            return None
        if alike and _elements(exact) >= elements:
            return self._put(tensor, exact.as_strided((elements,), (1,), 0))
        numbers = exact.new_zeros(elements, dtype=_wide(tensor.dtype))
        numbers.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).copy_(exact)
        return self._put(tensor, numbers)

    def drop(self, tensor: Tensor) -> None:
        """Take what `tensor` holds for right."""
        self._shadows.pop(tensor.untyped_storage()._cdata, None)

    def forget(self) -> None:
        """Take everything for right."""
        self._shadows.clear()
        self._room = _ROOM

    def _put(self, tensor: Tensor, numbers: Tensor) -> Shadow:
        self._room -= numbers.nbytes
        if self._room < 0:
            known = self._shadows.items()
            self._shadows = {key: one for key, one in known if not one.storage.expired()}  # type: ignore[no-untyped-call]
            self._room = max(_ROOM, sum(one.numbers.nbytes for one in self._shadows.values()) // _SHARE)
        storage = tensor.untyped_storage()
        held = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        shadow = self._shadows[storage._cdata] = Shadow(held, tensor.dtype, numbers)
        return shadow


def shares_storage(tensor: Tensor, others: list[Tensor]) -> bool:
    """Whether `tensor` lies where one of `others` does."""
    own = tensor.untyped_storage()._cdata
    return any(other.layout is torch.strided and other.untyped_storage()._cdata == own for other in others)


def _elements(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def _wide(dtype: torch.dtype) -> Any:
    return torch.float64 if dtype is torch.float64 else torch.float32
