"""AMP806."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from amplint.findings import Finding, Severity
from amplint.trace.check import Check
from amplint.trace.record import Record, ScalerStep

_SETTLED = 128.0
"""A scale this low is not that of a scaler that still settles from 65536."""
_SHARE = 0.2
"""More skipped steps than these, once the scale has settled, are no occasional overflow."""
_ENOUGH = 5
"""Fewer steps than these tell nothing about a share."""


class StepsSkipped(Check):
    """A scaler skips steps that it should not have to skip any more, or its scale falls and falls.

    ## Why is this bad?
    A skipped step trains nothing. The first few are skipped while the scale comes down from 65536 to where gradients
    fit; later one in some hundreds is, when the scale has grown too far. More than that means that gradients are inf
    or NaN whatever the scale is: a forward pass that overflows, a division by 0, a learning rate that is too high.

    ## Example
    ```python
    loss = (x.half() ** 2).sum()  # inf, whatever the scale
    ```

    ## Use instead
    ```python
    loss = x.float().pow(2).sum()
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling>
    """

    code = "AMP806"
    name = "steps-skipped"
    severity = Severity.WARNING
    reason = "A skipped step trains nothing, and no scale cures gradients that are not finite in any case."

    def findings(self, record: Record) -> Iterator[Finding]:
        """One finding for each scaler."""
        for scaler, steps in groupby(sorted(record.scaler_steps, key=_scaler), _scaler):
            ordered = sorted(steps, key=lambda step: step.step)
            why = _excess(ordered)
            if why:
                advice = "Find where the first inf comes from, in the forward pass first."
                yield self.found(ordered[0].filename, ordered[0].row, f"{scaler} {why}", advice=advice)


def _scaler(step: ScalerStep) -> str:
    return step.scaler


def _excess(steps: list[ScalerStep]) -> str:
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
