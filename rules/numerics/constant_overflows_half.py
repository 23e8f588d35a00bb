"""AMP401."""

from __future__ import annotations

import math
from collections.abc import Iterator

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.rules.numerics.limits import limit
from amplint.semantics.events import Event, TensorOp
from amplint.source.rewrite import Rewriter
from amplint.torchlib.names import FLOAT16_MAX

INTO_ELEMENTS = ("masked_fill", "masked_fill_", "where", "index_put", "index_fill", "index_fill_", "scatter", "scatter_")
BECOMES_INFINITE = ("where", "index_put", "Add", "Subtract", "Multiply")


class ConstantOverflowsHalf(Rule):
    """A constant past 65504 meets a float16 tensor.

    ## Why is this bad?
    The largest float16 number is 65504. `masked_fill(mask, -1e9)` on a float16 tensor raises `RuntimeError: value cannot
    be converted to type at::Half without overflow`, and so do `fill_`, `full` and their kind; `where`, indexed assignment
    and arithmetic make infinities, which softmax and the loss turn into NaN. The code works in float32 and in bfloat16, so
    it breaks when mixed precision is switched on. Lines whose tensor is known to be float32 are left alone: CUDA
    autocast returns softmax, exp, sums, norms and losses in float32.

    ## Example
    ```python
    scores = scores.masked_fill(mask, -1e9)
    ```

    ## Use instead
    ```python
    scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    ```

    ## Fix safety
    Only a value that masks elements is replaced, by the lowest or highest number of the tensor's own dtype. It stands
    for "as small as can be" as the old one did.

    ## References
    - <https://docs.pytorch.org/docs/stable/type_info.html#torch.torch.finfo>
    """

    code = "AMP401"
    name = "constant-overflows-half"
    severity = Severity.ERROR
    screen = (
        (b"autocast", b"half", b"float16", b"HalfTensor", b"dtype"),
        (*(b"%de" % digit for digit in range(10)), b".e", b"E", b"**", b"0000", b"9999", b"6553", b"max"),
    )
    fixable = Applicability.SAFE
    reason = "The largest float16 number is 65504; anything beyond raises or becomes infinity."

    def on_tensor_op(self, event: TensorOp) -> Iterator[Report]:
        number, op = event.number, event.op
        if number is None or math.isinf(number.value) or abs(number.value) <= FLOAT16_MAX or op == "Divide":
            return
        certain = event.tensor.dtype is not None
        if (op in ("Add", "Subtract", "Multiply") or op.startswith("clamp")) and not certain:
            return
        what = f"becomes {math.copysign(math.inf, number.value)}" if op in BECOMES_INFINITE else "raises"
        what = "limits nothing on CUDA and raises on CPU" if op.startswith("clamp") else what
        yield self.report(
            event,
            f"{number.value:g} does not fit {'a' if certain else 'what can be a'} float16 tensor: it {what}",
            advice="Write torch.finfo(x.dtype).min (or .max) for a mask, and scale or cast to float32 for anything else.",
            at=number.node,
            notes=[(event.half, event.why)] if event.half is not None else (),
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, TensorOp) and event.number is not None
        lowest = event.op in ("full", "Multiply") and event.number.value < 0
        text = limit(event, rewrite) if event.op in INTO_ELEMENTS or lowest else None
        if text is None:
            return None
        return Fix("Use the limit of the tensor's dtype", (rewrite.replace(event.number.node, text),), imports=("import torch",))
