"""The data of a run's comparison with float32."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class LineDrift:
    """The error of a line's results relative to float32, in its worst module and step.

    Errors are norms of differences relative to that of the float32 values. `error` is the largest of a result's,
    `added` how much the line's operations added to the error of their inputs, `op` the one that added most and
    `dtype` that of its result. `kind` is `inf` or `nan` if the line is the culprit of one that float32 does not have:
    there is no error then. `coarse` says that an operation ran in half which autocast keeps in float32: that is `op`.
    `phase` is `forward` or `backward`; other places are as in `Operation`.
    """

    phase: str
    op: str
    filename: str
    row: int
    module: str
    dtype: str
    kind: str
    added: float | None
    error: float | None
    coarse: bool = False
    library: str = ""
    library_row: int = 0


@dataclass(frozen=True, slots=True)
class TensorDrift:
    """The error of a tensor relative to float32.

    `what` is `output` (the first tensor that the module `name` returned) or `gradient` (of the parameter `name`, when
    its optimizer steps). `error` is relative as in `LineDrift`, None if a number is not finite that should be.
    """

    what: str
    name: str
    dtype: str
    error: float | None

    @property
    def size(self) -> float:
        """The error, inf where there is no number."""
        return math.inf if self.error is None else self.error


@dataclass(frozen=True, slots=True)
class Comparison:
    """Steps as they ran and in float32, from the same state and data.

    `half` is the half dtype of the run, `tolerance` the relative error that its rounding explains. `first` is the
    module whose output deviated by more first, empty if none did. `lines` and `tensors` are worst first, `refused`
    are operators that could not be compared: their results count as right.
    """

    half: str
    steps: int
    tolerance: float
    first: str
    lines: list[LineDrift]
    tensors: list[TensorDrift]
    refused: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: dict[str, Any]) -> Comparison:
        """The comparison from its `dataclasses.asdict`."""
        lines = [LineDrift(**line) for line in row["lines"]]
        tensors = [TensorDrift(**drift) for drift in row["tensors"]]
        return cls(**{**row, "lines": lines, "tensors": tensors, "refused": tuple(row["refused"])})


def worst_first(lines: Iterable[LineDrift], tolerance: float) -> list[LineDrift]:
    """`lines` in order of relevance.

    Nonfinite ones come first, in the given order, then deviations in the forward pass, which can cause those of
    gradients. Of errors that rounding explains, those of operations that autocast would keep in float32 come first.
    """

    def order(drift: LineDrift) -> tuple[int, float]:
        if drift.kind:
            return (0 if drift.phase == "forward" else 1), 0.0
        added = drift.added or 0.0
        if drift.phase == "forward" and added > tolerance:
            return 2, -added
        return (3 if drift.coarse else 4), -added

    return sorted(lines, key=order)


def worst_of_each(lines: Iterable[LineDrift]) -> list[LineDrift]:
    """One entry per phase and line, and per library line called from it."""
    worst: dict[tuple[str | int, ...], LineDrift] = {}
    for drift in lines:
        place = (drift.phase, drift.filename, drift.row, drift.library, drift.library_row)
        known = worst.setdefault(place, drift)
        if (bool(known.kind), known.added or 0.0) < (bool(drift.kind), drift.added or 0.0):
            worst[place] = drift
    return list(worst.values())


def largest_of_each(tensors: Iterable[TensorDrift]) -> list[TensorDrift]:
    """One entry per tensor, in order of first occurrence."""
    largest: dict[tuple[str, str], TensorDrift] = {}
    for drift in tensors:
        known = largest.setdefault((drift.what, drift.name), drift)
        if drift.size > known.size:
            largest[drift.what, drift.name] = drift
    return list(largest.values())


def by_size(tensors: Iterable[TensorDrift]) -> list[TensorDrift]:
    """Sorted by error, largest first."""
    return sorted(tensors, key=lambda drift: -drift.size)


def joined(found: Sequence[Comparison]) -> Comparison | None:
    """The comparisons of several ranks as one, with the worst of each line and tensor."""
    if not found:
        return None
    return replace(
        found[0],
        steps=max(one.steps for one in found),
        first=next((one.first for one in found if one.first), ""),
        lines=worst_first(worst_of_each(drift for one in found for drift in one.lines), found[0].tolerance),
        tensors=by_size(largest_of_each(drift for one in found for drift in one.tensors)),
        refused=tuple(sorted({name for one in found for name in one.refused})),
    )
