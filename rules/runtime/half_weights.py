"""AMP807."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from amplint.findings import Finding, Severity
from amplint.torchlib.names import HALF_DTYPES
from amplint.trace.check import Check
from amplint.trace.data import Held, RunData

_NAMED = 3


class HalfMasterWeights(Check):
    """An optimizer steps parameters, or keeps its own numbers, in half.

    ## Why is this bad?
    An update that is less than about a thousandth of a weight is lost in float16, and less than a hundredth in
    bfloat16: the weight stays as it is. Adam's second moment, the square of a gradient, is 0 in float16 for gradients
    below 2e-4. Mixed precision keeps parameters in float32 for that reason and casts copies of them.

    ## Example
    ```python
    model = Model().half()
    optimizer = torch.optim.AdamW(model.parameters())
    ```

    ## Use instead
    ```python
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(inputs).loss
    ```

    ## References
    - <https://arxiv.org/abs/1710.03740>
    """

    code = "AMP807"
    name = "half-master-weights"
    severity = Severity.WARNING
    reason = "Small updates are lost in half, and small second moments become 0."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each optimizer and dtype."""
        coarse = [held for held in record.held if _half(held)]
        for (filename, row, optimizer, dtype), group in groupby(sorted(coarse, key=_kind), _kind):
            names = [held.name for held in group]
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            yield self.found(
                filename,
                row,
                f"{optimizer} steps {dtype} parameters: {', '.join(names[:_NAMED])}{more}",
                advice="Keep the model in float32 and let autocast convert.",
            )


def _kind(held: Held) -> tuple[str, int, str, str]:
    return held.filename, held.row, held.optimizer, _half(held)


def _half(held: Held) -> str:
    """The half dtype of `held`; empty if there is none."""
    dtypes = (held.dtype, *(dtype for _, dtype in held.state))
    return next((dtype for dtype in dtypes if dtype in HALF_DTYPES), "")
