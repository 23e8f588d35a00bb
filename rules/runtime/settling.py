"""Behaviour of a gradient scaler: settling of the scale, or skipped steps that no lower scale would have saved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from amplint.trace.data import RunData, ScalerStep

DEFAULT = 65536.0
"""The initial scale of a scaler by default."""
_SETTLED = 128.0
"""A scale too low for a scaler that still settles from `DEFAULT`."""
_SHARE = 0.2
"""The share of skipped steps, once the scale has settled, that occasional overflow does not explain."""
_FAR = 8
"""The factor above `DEFAULT` up to which an initial scale costs only a few more skipped steps."""
_ENOUGH = 5
"""The least number of steps for which a share is meaningful."""


def by_scaler(record: RunData) -> Iterator[list[ScalerStep]]:
    """The steps of each scaler, in order."""
    for _, steps in groupby(sorted(record.scaler_steps, key=_scaler), _scaler):
        yield sorted(steps, key=lambda step: step.step)


def skip_problem(steps: list[ScalerStep]) -> str:
    """The problem with the skipped steps of one scaler; empty if there is none."""
    lowest = min((step.scale for step in steps if step.skipped), default=_SETTLED)
    if lowest < _SETTLED:
        return f"skipped a step at a scale of only {lowest:g}: the gradients are not finite at any scale"
    first = next((index for index, step in enumerate(steps) if not step.skipped), len(steps))
    later = steps[first:]
    skipped = sum(step.skipped for step in later)
    if len(later) >= _ENOUGH and skipped > _SHARE * len(later):
        return f"skipped {skipped} of {len(later)} steps after its scale had settled"
    return ""


def hopeless(record: RunData) -> set[int]:
    """The steps that scalers skip after the scale should have settled, or at a scale that could not be lower."""
    return {step.step for steps in by_scaler(record) if skip_problem(steps) for step in steps if step.skipped}


def too_high(record: RunData) -> set[float]:
    """The initial scales far above `DEFAULT` that made a scaler skip from its first step on.

    A scaler that has grown to such a scale skips a single step now and then. Only steps with consecutive numbers are
    adjacent: in a thinned history, and with `--every`, step 0 alone is evidence.
    """
    scales: set[float] = set()
    for steps in by_scaler(record):
        skipped = {step.step: step.scale for step in steps if step.skipped}
        scales |= {scale for step, scale in skipped.items() if step == 0 or {step - 1, step + 1} & skipped.keys()}
    return {scale for scale in scales if scale > _FAR * DEFAULT}


def _scaler(step: ScalerStep) -> str:
    return step.scaler
