"""Whether a gradient scaler does what it is there for, or skips steps that no lower scale would have saved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

from amplint.trace.record import Record, ScalerStep

DEFAULT = 65536.0
"""The scale that a scaler begins with."""
_SETTLED = 128.0
"""A scale this low is not that of a scaler that still settles from `DEFAULT`."""
_SHARE = 0.2
"""More skipped steps than these, once the scale has settled, are no occasional overflow."""
_ENOUGH = 5
"""Fewer steps than these tell nothing about a share."""


def by_scaler(record: Record) -> Iterator[list[ScalerStep]]:
    """The steps of each scaler, in order."""
    for _, steps in groupby(sorted(record.scaler_steps, key=_scaler), _scaler):
        yield sorted(steps, key=lambda step: step.step)


def excess(steps: list[ScalerStep]) -> str:
    """What is wrong with the skipped steps of one scaler, empty where nothing is."""
    lowest = min((step.scale for step in steps if step.skipped), default=_SETTLED)
    if lowest < _SETTLED:
        return f"skipped a step at a scale of only {lowest:g}: the gradients are not finite at any scale"
    first = next((index for index, step in enumerate(steps) if not step.skipped), len(steps))
    later = steps[first:]
    skipped = sum(step.skipped for step in later)
    if len(later) >= _ENOUGH and skipped > _SHARE * len(later):
        return f"skipped {skipped} of {len(later)} steps after its scale had settled"
    return ""


def excused(record: Record) -> set[int]:
    """The steps in which a scaler met gradients that are not finite, and rightly skipped and lowered the scale."""
    return {step.step for steps in by_scaler(record) if not excess(steps) for step in steps if step.skipped}


def too_high(record: Record) -> set[float]:
    """The scales that a scaler was given and that made it skip from its first step on, above those it would begin with.

    A scaler that has grown to such a scale skips a single step now and then.
    """
    scales: set[float] = set()
    for steps in by_scaler(record):
        if steps[0].step == 0 and steps[0].skipped:
            scales.add(steps[0].scale)
        for one, other in pairwise(steps):
            if one.skipped and other.skipped:
                scales |= {one.scale, other.scale}
    return {scale for scale in scales if scale > DEFAULT}


def _scaler(step: ScalerStep) -> str:
    return step.scaler
