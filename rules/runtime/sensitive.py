"""AMP802."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.trace.check import Check, by_line, times, within
from amplint.trace.data import RunData
from amplint.trace.kinds import is_coarse


class SensitiveOpInHalf(Check):
    """An operation that autocast computes in float32 ran in half, and stored its result in half.

    ## Why is this bad?
    Autocast keeps exponentials, logarithms, powers, sums, norms and losses in float32, since their results leave the
    range of float16 or lose digits that matter. Outside of a region, as in a model that `.half()` converted, or in
    place, nothing keeps them there. The log-softmax of `F.cross_entropy` is not reported: in a region, too, it is taken
    of half logits in half.

    ## Example
    ```python
    probabilities = model.half()(inputs.half()).softmax(-1)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        probabilities = model(inputs).softmax(-1)
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP802"
    name = "sensitive-op-in-half"
    severity = Severity.WARNING
    reason = "Its results leave the range of half precision, or lose digits that matter; autocast keeps it in float32."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each line with such operations."""
        learned = {(one.filename, one.row) for one in record.operations if one.phase == "backward"}
        coarse = ((one, count) for one, count in record.operations.items() if is_coarse(one, record.device))
        for line, kinds in by_line(coarse).items():
            worst = kinds[0][0]
            counts = [count for _, count in kinds]
            if max(counts) < record.steps and not worst.module and line[:2] not in learned:
                continue  # it prepares the training
            yield self.found_at(
                line,
                f"{worst.op} ran and stored its result in {worst.outputs[0]}, {times(sum(counts))}{within(worst)}",
                advice="Compute it in a region, or convert what goes in with .float().",
            )
