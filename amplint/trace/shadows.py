"""Shadows: the values that a run's tensors would have in float32, had nothing been rounded to half."""

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
    """The `numbers` of a storage with elements of `dtype`, in float32 (float64 for float64), one-dimensional.

    `error` is the relative error of the last write. `culprit` is the culprit of an error that rounding does not
    explain, `zeroed` that of a wrong 0. `cancelled` is the ratio by which cancellation reduced the terms of a sum:
    errors are relative to the terms.
    """

    storage: StorageWeakRef
    dtype: torch.dtype
    numbers: Tensor
    error: float = 0.0
    culprit: Culprit | None = None
    zeroed: Culprit | None = None
    cancelled: float = 1.0


class Shadows:
    """Shadows by storage, so that views and writes through them are covered.

    A tensor without a shadow has its own values in float32, up to rounding.
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
        """The float32 values of `tensor`, as a view of its shadow if there is one."""
        shadow = self.find(tensor)
        if shadow is not None:
            return shadow.numbers.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        return tensor.float() if tensor.dtype in HALF else tensor

    def prepare(self, tensor: Tensor) -> None:
        """Create a shadow with the current values of `tensor`, before a write."""
        if self.find(tensor) is None:
            whole = tensor.as_strided((_elements(tensor),), (1,), 0)
            self._put(tensor, whole.to(_wide(tensor.dtype), copy=True))

    def keep(self, tensor: Tensor, exact: Tensor) -> Shadow | None:
        """Make `exact`, which is used nowhere else, the shadow of the new `tensor`.

        None if elements of `tensor` overlap in memory.
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
        """Accept the values of `tensor` as right."""
        self._shadows.pop(tensor.untyped_storage()._cdata, None)

    def forget(self) -> None:
        """Accept all values as right."""
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
    """Whether `tensor` shares storage with one of `others`."""
    own = tensor.untyped_storage()._cdata
    return any(other.layout is torch.strided and other.untyped_storage()._cdata == own for other in others)


def _elements(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def _wide(dtype: torch.dtype) -> Any:
    return torch.float64 if dtype is torch.float64 else torch.float32
