"""AMP403."""

from __future__ import annotations

import math
from collections.abc import Iterator

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.rules.numerics.limits import limit
from amplint.semantics.events import Event, TensorOp
from amplint.source.rewrite import Rewriter

TURNS_TO_NAN = {
    "Multiply": "0 times infinity is NaN",
    "Subtract": "infinity minus infinity is NaN",
    "softmax": "the softmax of a row that is all infinities is NaN",
}


class InfinityInHalf(Rule):
    """An infinity turns into NaN in half precision code.

    ## Why is this bad?
    `float("-inf")` is often put where -1e9 did not fit float16. But `(1 - mask) * float("-inf")` is NaN wherever the mask
    is 1, and softmax is NaN for a row whose elements are all masked: a padding row, an empty sequence. One NaN in
    the forward pass makes every gradient NaN. With a gradient scaler each step is then skipped, silently.
    Causal masks (`tril`, `triu`, compared positions) leave something in every row and are fine, as is code that replaces the
    NaN afterwards.

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
    The lowest number of the dtype is not -inf: a row that is masked altogether becomes uniform weights instead of NaN, and
    adding to it can still overflow. Whether such rows should count is for you to decide.

    ## References
    - <https://docs.pytorch.org/docs/stable/type_info.html#torch.torch.finfo>
    """

    code = "AMP403"
    name = "infinity-in-half"
    severity = Severity.WARNING
    screen = (
        (b"autocast", b"half", b"float16", b"HalfTensor", b"dtype"),
        (b"'inf", b'"inf', b"-inf", b"+inf", b".inf", b" inf", b"Inf"),
        (b"softmax", b"Softmax", b"*", b"-"),
    )
    fixable = Applicability.UNSAFE

    def on_tensor_op(self, event: TensorOp) -> Iterator[Report]:
        number, why = event.number, TURNS_TO_NAN.get(event.op)
        if number is not None and math.isinf(number.value) and why is not None:
            notes = [(event.half, event.why)] if event.half is not None else []
            yield self.report(
                event,
                f"{number.value:g} turns into NaN: {why}",
                advice="Write torch.finfo(x.dtype).min, the lowest number of the dtype, in place of -inf.",
                reason="One NaN in the forward pass makes all gradients NaN, and the scaler skips every step.",
                at=number.node,
                notes=[*notes, (event.node, "NaN arises here")],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, TensorOp) and event.number is not None
        text = limit(event, rewrite)
        if text is None:
            return None
        edit = rewrite.replace(event.number.node, text)
        return Fix("Use the limit of the tensor's dtype", (edit,), Applicability.UNSAFE, ("import torch",))
