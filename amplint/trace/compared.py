"""What a comparison of a run with float32 showed, as data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class LineDrift:
    """How far the results of a line are from what they would be in float32, in its worst module and step.

    Errors are norms of differences relative to that of the float32 numbers. `error` is the largest of a result's,
    `added` how much the line's operations added to what arrived with their inputs, `op` the one that added most and
    `dtype` that of its result. `kind` is `inf` or `nan` where the line is to blame for one that float32 does not have:
    there is no number then. `coarse` tells that an operation ran in half which autocast keeps in float32: that is `op`.
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
    """How far a tensor is from what it would be in float32.

    `what` is `output` (the first tensor that the module `name` returned) or `gradient` (of the parameter `name`, when
    its optimizer steps). `error` is relative as in `LineDrift`, None where a number is not finite that should be.
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
    module whose output was off by more first, empty where none was. `lines` and `tensors` are worst first, `refused`
    are operators that could not be compared: what they made counts as right.
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
        """What `dataclasses.asdict` made of one."""
        lines = [LineDrift(**line) for line in row["lines"]]
        tensors = [TensorDrift(**drift) for drift in row["tensors"]]
        return cls(**{**row, "lines": lines, "tensors": tensors, "refused": tuple(row["refused"])})


def worst_first(lines: Iterable[LineDrift], tolerance: float) -> list[LineDrift]:
    """`lines` in the order in which to look at them.

    What is not finite comes first, in the order given, then what parts in the forward pass: gradients that part may do
    so for it. Of what rounding explains, that which autocast would have kept in float32 comes first.
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
    """One entry for each phase of each line, and of each line of libraries that it has called."""
    worst: dict[tuple[str | int, ...], LineDrift] = {}
    for drift in lines:
        place = (drift.phase, drift.filename, drift.row, drift.library, drift.library_row)
        known = worst.setdefault(place, drift)
        if (bool(known.kind), known.added or 0.0) < (bool(drift.kind), drift.added or 0.0):
            worst[place] = drift
    return list(worst.values())


def largest_of_each(tensors: Iterable[TensorDrift]) -> list[TensorDrift]:
    """One entry for each tensor, in the order of their first."""
    largest: dict[tuple[str, str], TensorDrift] = {}
    for drift in tensors:
        known = largest.setdefault((drift.what, drift.name), drift)
        if drift.size > known.size:
            largest[drift.what, drift.name] = drift
    return list(largest.values())


def by_size(tensors: Iterable[TensorDrift]) -> list[TensorDrift]:
    """Those that are off most in front."""
    return sorted(tensors, key=lambda drift: -drift.size)


def joined(found: Sequence[Comparison]) -> Comparison | None:
    """The comparisons of several ranks as one, which has the worst of each line and tensor."""
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
