"""AMP403."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import limit
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, TensorOp
from amplint.torchlib.names import HALF_SIGNS, INFINITIES

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

TURNS_TO_NAN = {
    "Multiply": "0 times infinity is NaN",
    "Subtract": "infinity minus infinity is NaN",
    "softmax": "the softmax of a row of nothing but -inf is NaN",
}


class InfinityInHalf(Rule):
    """An infinity turns into NaN in half-precision code.

    ## Why is this bad?
    `float("-inf")` is often put where -1e9 did not fit float16. But `(1 - mask) * float("-inf")` is NaN wherever the
    mask is 1, and softmax is NaN in a row whose elements are all masked: a padding row, an empty sequence. One NaN in
    the forward pass makes all gradients NaN, and a gradient scaler skips every such step without a word. Causal masks
    (`tril`, `triu`, compared positions) leave something in every row and are fine, as is code that takes the NaN away
    afterwards.

    ## Example
    ```python
    scores = scores.masked_fill(padding, float("-inf"))
    weights = scores.softmax(dim=-1)
    ```

    ## Use instead
    ```python
    scores = scores.masked_fill(padding, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    ```

    ## Fix safety
    The lowest number of the dtype is not -inf: a row that is masked altogether gets uniform weights instead of NaN,
    and a sum with it can still overflow. Whether such rows should count is for you to decide.

    ## References
    - <https://docs.pytorch.org/docs/stable/type_info.html#torch.torch.finfo>
    """

    code = "AMP403"
    name = "infinity-in-half"
    severity = Severity.WARNING
    claims = (Claim(Sign.NOT_FINITE),)
    screen = (HALF_SIGNS, INFINITIES)
    fixable = Applicability.UNSAFE
    reason = "One NaN in the forward pass makes all gradients NaN, and a gradient scaler then skips the step."

    def on_tensor_op(self, event: TensorOp) -> Iterator[Report]:
        number, why = event.number, TURNS_TO_NAN.get(event.op)
        if number is None or why is None or not math.isinf(number.value):
            return
        if event.op == "Subtract" and number is not event.tensor.infinity:
            return
        begins = [(event.half, event.why)] if event.half is not None else []
        yield self.report(
            event,
            f"{number.value:g} turns into NaN: {why}",
            advice="Write torch.finfo(x.dtype).min, the lowest number of the dtype, in place of -inf.",
            at=number.node,
            notes=[*begins, (event.node, "NaN arises here")],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        text = limit(event, rewrite) if isinstance(event, TensorOp) else None
        if text is None or not isinstance(event, TensorOp) or event.number is None:
            return None
        edit = rewrite.replace(event.number.node, text)
        return Fix("Use the limit of the tensor's dtype", (edit,), Applicability.UNSAFE, ("import torch",))
