"""Counts of what was observed at lines, until they are written to a record."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from amplint.records import dataclass
from amplint.trace.frames import Line
from amplint.trace.record import Observation, dtype_name
from amplint.trace.tally import Kind

_Key = tuple[str, str, Line, str, torch.dtype]


@dataclass(slots=True)
class _Seen:
    count: int = 0
    whole: float = 0.0
    lost: float = 0.0
    size: float | None = None


class Sightings:
    """Adds up what is seen of each kind at each line."""

    def __init__(self) -> None:
        self._seen: dict[_Key, _Seen] = {}

    def add(self, what: str, kind: Kind, dtype: torch.dtype, **numbers: float) -> None:
        """`kind` did `what`; numbers are as in `add_at`."""
        self.add_at(what, kind.op, kind.line, kind.module, dtype, **numbers)

    def add_at(
        self,
        what: str,
        op: str,
        line: Line,
        module: str,
        dtype: torch.dtype,
        *,
        lost: float = 0.0,
        whole: float = 0.0,
        size: float | None = None,
    ) -> None:
        """`what` is a kind of `Observation`; `lost` of `whole` was lost, and the largest `size` is kept."""
        seen = self._seen.setdefault((what, op, line, module, dtype), _Seen())
        seen.count += 1
        seen.whole += whole
        seen.lost += lost
        if size is not None and (seen.size is None or size > seen.size):
            seen.size = size

    def observations(self) -> Iterator[Observation]:
        """What was seen, in the order of its first time."""
        for (what, op, line, module, dtype), seen in self._seen.items():
            share = seen.lost / seen.whole if seen.whole else None
            yield Observation(what, op, *line, module, dtype_name(dtype), seen.count, share, seen.size)
