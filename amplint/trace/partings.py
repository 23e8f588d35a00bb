"""Deviations from float32, collected by step and sorted worst first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field

import torch

from amplint.records import dataclass
from amplint.trace.compared import (
    Comparison,
    LineDrift,
    TensorDrift,
    by_size,
    largest_of_each,
    worst_first,
    worst_of_each,
)
from amplint.trace.data import dtype_name
from amplint.trace.frames import Line

_UNITS = 16
"""So many units of half's precision are explained by rounding."""

Place = tuple[str, Line, Line, str]
"""Phase, line, line of a library, and module."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """An operation `op` at a place, with a result in `dtype`; `coarse` as in `LineDrift`."""

    place: Place
    op: str
    dtype: torch.dtype
    coarse: bool = False


@dataclass(slots=True)
class _Sum:
    """The error that the operations of a place added to that of their inputs.

    `op` added most, among the `coarse` ones if there are any.
    """

    added: float = 0.0
    error: float = 0.0
    kind: str = ""
    turn: int = 0
    op: str = ""
    dtype: str = ""
    coarse: bool = False
    most: float = -1.0


@dataclass(slots=True)
class _Step:
    places: dict[Place, _Sum] = field(default_factory=dict)
    tensors: dict[tuple[str, str], TensorDrift] = field(default_factory=dict)
    half: torch.dtype | None = None

    def fails_forward(self) -> bool:
        return any(place[0] == "forward" and found.kind for place, found in self.places.items())

    def drifts(self) -> Iterator[tuple[int, LineDrift]]:
        """The deviations of lines, each with its order among culprits."""
        for (phase, line, library, module), found in self.places.items():
            if line[1]:
                added, error = (None, None) if found.kind else (min(found.added, found.error), found.error)
                what = (module, found.dtype, found.kind)
                yield found.turn, LineDrift(phase, found.op, *line, *what, added, error, found.coarse, *library)

    def forward(self) -> _Step:
        """The part without gradients."""
        places = {place: found for place, found in self.places.items() if place[0] == "forward"}
        tensors = {key: drift for key, drift in self.tensors.items() if drift.what == "output"}
        return _Step(places, tensors, self.half)


class Partings:
    """The deviations of the steps so far.

    While a scaler searches for its scale, it skips steps with infinite gradients: only the forward pass of such a step
    counts, and only if there are no others.
    """

    def __init__(self) -> None:
        self._step = _Step()
        self._steps: list[_Step] = []
        self._skipped: _Step | None = None

    def ran_in(self, half: torch.dtype) -> None:
        """An operation ran in `half`."""
        self._step.half = self._step.half or half

    def add(self, one: Culprit, added: float, error: float) -> None:
        """The result of `one` has the relative error `error`, of which the operation `added` a part."""
        found = self._step.places.setdefault(one.place, _Sum())
        found.added += max(added, 0.0)
        found.error = max(found.error, error)
        if (one.coarse, added) > (found.coarse, found.most) and not found.kind:
            found.coarse, found.most, found.op, found.dtype = one.coarse, added, one.op, dtype_name(one.dtype)

    def blame(self, one: Culprit, kind: str) -> None:
        """`one` is the culprit of an inf or NaN, the `kind`; the first counts."""
        found = self._step.places.setdefault(one.place, _Sum())
        if not found.kind:
            found.kind, found.op, found.dtype = kind, one.op, dtype_name(one.dtype)
            found.turn = sum(bool(one.kind) for one in self._step.places.values())

    def tensor(self, what: str, name: str, dtype: torch.dtype, error: float) -> None:
        """An output or gradient has the relative error `error`; the largest counts."""
        known = self._step.tensors.get((what, name))
        if known is None or error > known.size:
            given = error if math.isfinite(error) else None
            self._step.tensors[what, name] = TensorDrift(what, name, dtype_name(dtype), given)

    def end_step(self, *, skipped: bool) -> None:
        """A step ended; `skipped` if a scaler skipped the optimizer."""
        step, self._step = self._step, _Step()
        if skipped and not step.fails_forward():
            self._skipped = step.forward()
        elif step.places:
            self._steps.append(step)

    def result(self, refused: tuple[str, ...]) -> Comparison | None:
        """The comparison, None if nothing ran in half; `refused` are operators that were not compared."""
        steps = self._steps or [step for step in (self._skipped,) if step is not None]
        half = next((step.half for step in steps if step.half is not None), None)
        if half is None:
            return None
        tolerance = _UNITS * torch.finfo(half).eps
        drifts = sorted((drift for step in steps for drift in step.drifts()), key=lambda found: found[0])
        tensors = largest_of_each(drift for step in steps for drift in step.tensors.values())
        return Comparison(
            half=dtype_name(half),
            steps=len(steps),
            tolerance=tolerance,
            first=next((one.name for one in tensors if one.what == "output" and one.size > tolerance), ""),
            lines=worst_first(worst_of_each(drift for _, drift in drifts), tolerance),
            tensors=by_size(tensors),
            refused=refused,
        )


def parts(added: float, half: torch.dtype) -> bool:
    """Whether an error is larger than rounding to `half` explains."""
    return added > _UNITS * torch.finfo(half).eps
