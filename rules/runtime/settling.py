"""Whether a gradient scaler does what it is there for, or skips steps that no lower scale would have saved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from amplint.trace.record import Record, ScalerStep

DEFAULT = 65536.0
"""The scale that a scaler begins with."""
_SETTLED = 128.0
"""A scale this low is not that of a scaler that still settles from `DEFAULT`."""
_SHARE = 0.2
"""More skipped steps than these, once the scale has settled, are no occasional overflow."""
_FAR = 8
"""A scaler that begins this much higher skips a few more steps, which is nothing to speak of."""
_ENOUGH = 5
"""Fewer steps than these tell nothing about a share."""


def by_scaler(record: Record) -> Iterator[list[ScalerStep]]:
    """The steps of each scaler, in order."""
    for _, steps in groupby(sorted(record.scaler_steps, key=_scaler), _scaler):
        yield sorted(steps, key=lambda step: step.step)


def excess(steps: list[ScalerStep]) -> str:
    """What is wrong with the skipped steps of one scaler, empty if nothing is."""
    lowest = min((step.scale for step in steps if step.skipped), default=_SETTLED)
    if lowest < _SETTLED:
        return f"skipped a step at a scale of only {lowest:g}: the gradients are not finite at any scale"
    first = next((index for index, step in enumerate(steps) if not step.skipped), len(steps))
    later = steps[first:]
    skipped = sum(step.skipped for step in later)
    if len(later) >= _ENOUGH and skipped > _SHARE * len(later):
        return f"skipped {skipped} of {len(later)} steps after its scale had settled"
    return ""


def hopeless(record: Record) -> set[int]:
    """The steps that scalers skip although they should not have to any more, or at a scale that could not be lower."""
    return {step.step for steps in by_scaler(record) if excess(steps) for step in steps if step.skipped}


def too_high(record: Record) -> set[float]:
    """The scales far above `DEFAULT` that a scaler was given, and that made it skip from its first step on.

    A scaler that has grown to such a scale skips a single step now and then. Only steps with consecutive numbers are
    neighbours: in a thinned history, and with `--every`, step 0 alone is evidence.
    """
    scales: set[float] = set()
    for steps in by_scaler(record):
        skipped = {step.step: step.scale for step in steps if step.skipped}
        scales |= {scale for step, scale in skipped.items() if step == 0 or {step - 1, step + 1} & skipped.keys()}
    return {scale for scale in scales if scale > _FAR * DEFAULT}


def _scaler(step: ScalerStep) -> str:
    return step.scaler
