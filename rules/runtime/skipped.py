"""AMP806."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.trace.check import Check
from amplint.trace.data import RunData

from .settling import by_scaler, skip_problem


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

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each scaler."""
        for steps in by_scaler(record):
            why = skip_problem(steps)
            if why:
                advice = "Find where the first inf comes from, in the forward pass first."
                first = steps[0]
                yield self.found(first.filename, first.row, f"{first.scaler} {why}", advice=advice)
