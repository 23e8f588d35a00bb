"""Accumulated observations at lines, kept on their device until they are written to a record."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from amplint.records import dataclass
from amplint.trace.data import Observation, dtype_name
from amplint.trace.frames import Line
from amplint.trace.tally import Kind

Number = float | Tensor
"""A tensor has no dimensions, and is not asked for its number before the record is written."""
_Key = tuple[str, str, Line, str, torch.dtype]


@dataclass(slots=True)
class _Seen:
    count: int = 0
    whole: Number = 0.0
    lost: Number = 0.0
    size: Number | None = None


class Sightings:
    """Sums of observations by kind and line."""

    def __init__(self) -> None:
        self._seen: dict[_Key, _Seen] = {}

    def add(
        self, what: str, kind: Kind, dtype: torch.dtype, lost: Number = 1.0, whole: Number = 0.0, **size: Number
    ) -> None:
        """Add an observation `what` of the operation `kind`, as `add_at`."""
        self.add_at(what, kind.op, kind.line, kind.module, dtype, lost, whole, **size)

    def add_at(
        self,
        what: str,
        op: str,
        line: Line,
        module: str,
        dtype: torch.dtype,
        lost: Number = 1.0,
        whole: Number = 0.0,
        size: Number | None = None,
    ) -> None:
        """Add an observation: `lost` of `whole` was lost; the largest `size` is kept.

        `what` is a kind of `Observation`. Observations without any loss are dropped.
        """
        seen = self._seen.setdefault((what, op, line, module, dtype), _Seen())
        seen.count += 1
        seen.whole = _sum(seen.whole, whole)
        seen.lost = _sum(seen.lost, lost)
        if size is not None:
            seen.size = size if seen.size is None else _largest(seen.size, size)

    def observations(self) -> Iterator[Observation]:
        """The observations in order of first occurrence."""
        for (what, op, line, module, dtype), seen in self._seen.items():
            lost, whole = float(seen.lost), float(seen.whole)
            size = float(seen.size) if seen.size is not None else None
            if lost:
                share = lost / whole if whole else None
                yield Observation(what, op, *line, module, dtype_name(dtype), seen.count, share, size)


def _sum(one: Number, other: Number) -> Number:
    return one + _beside(other, one)


def _largest(one: Number, other: Number) -> Number:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.maximum(one, other.to(one.device))
    return max(float(one), float(other))


def _beside(value: Number, other: Number) -> Number:
    return value.to(other.device) if isinstance(value, Tensor) and isinstance(other, Tensor) else value
