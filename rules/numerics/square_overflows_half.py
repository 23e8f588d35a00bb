"""AMP405."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import squared
from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import (
    LENGTH_PRODUCTS,
    LIFTED_SQUARES,
    SQUARES,
    Because,
    Event,
    How,
    Operation,
    ScaledLate,
    Sensitive,
)
from amplint.semantics.values.values import Tensor
from amplint.torchlib.names import HALF_SIGNS

from .sensitive import OUTSIDE, operand_evidence, precision_message

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

LENGTHS = ("norm", "vector_norm", "pow", "square", "mul")
"""Operations that square, directly or internally."""
_PRODUCTS = {
    How.CANCELS: (
        "Half has three digits, which both have in common where the mean is large beside the spread.",
        "Compute both in float32, with autocast off, or the mean of (x - mean) ** 2.",
    ),
    How.OWN_SUM: (
        "In float16 weights below 6e-8 are 0, and a sum past 65504 is infinite: the quotient is NaN.",
        "Convert the weights first, and the quotient back: w = w.float(); (w / w.sum(-1, keepdim=True)).to(x.dtype).",
    ),
    How.AREA: ("The largest float16 number is 65504.", "Convert the coordinates to float32 first: boxes.float()."),
}
"""Evidence for too large products, sums or cancellation -> the reason, and the advice."""
_VARIANCE = (
    "PyTorch computes it in float32, but the result is float16: infinite from a deviation of 256 on, 0 below 1.7e-4."
)
_FLOAT16 = frozenset({"float16"})
REDUCTIONS = ("sum", "mean", "nansum", "nanmean")


class SquareOverflowsHalf(Rule):
    """Squares of a float16 tensor are added up.

    ## Why is this bad?
    The largest float16 number is 65504, so the square of anything past 255 is infinity, and a norm, a variance or a
    mean square written out by hand is infinite as soon as one element is. Small ones vanish likewise: below 1.7e-4 a
    square is 0. Under CUDA autocast `x ** 2`, `x.pow(2)` and `x.square()` are computed in float32, but `x * x` is
    not; in a model that was converted to float16 none of them is. The product of two norms, or of rows that are scaled
    down only afterwards, overflows as easily.

    How large the numbers are nothing in the code shows, so the rule reports infos, and only where it is selected by its
    code or `ALL`. It reports sums of squares, products of norms and `x.var()`, which adds up in float32 and returns
    float16, so that only a deviation of 256 overflows, single squares and norms of half tensors, norms whose result is
    converted back to another tensor's dtype, variances that are the difference of a mean square and a squared mean,
    areas of boxes, weights divided by their own sum, and what linear attention divides by the sum of its keys.

    ## Example
    ```python
    def forward(self, x):  # float16
        return self.weight * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps)
    ```

    ## Use instead
    ```python
    def forward(self, x):
        wide = x.float()
        normed = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + self.eps)
        return self.weight * normed.to(x.dtype)
    ```
    PyTorch's own norms (`nn.LayerNorm`, `nn.RMSNorm`, `torch.linalg.vector_norm`) compute in float32 inside.

    ## Fix safety
    Unsafe: the tensor is converted to float32 where it is squared, so that the result is float32 as well. Convert it
    back where what follows needs float16.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#cuda-op-specific-behavior>
    """

    code = "AMP405"
    name = "square-overflows-half"
    severity = Severity.WARNING
    claims = (Claim(Sign.TAKES, ("float16",), ops=("mul", "pow", "var", "std", "norm", "matmul")),)
    screen = (HALF_SIGNS, (b"sum(", b"mean(", b".var(", b"torch.var(", b"norm(", b"sqrt("))
    assumed = ((b"sum(", b"mean(", b".var(", b"norm(", b"transpose(", b".mT", b"* ", b"sqrt(", b" / "),)
    fixable = Applicability.UNSAFE
    reason = "The square of a number past 255 is infinity in float16, that of one below 1.7e-4 is 0."

    def on_operation(self, event: Operation) -> Iterator[Report]:
        first = event.operands[0] if event.operands else None
        half = first.half if first is not None else None
        if first is None or half is None or "float16" not in half.dtypes or not (first.dtype or event.assumed):
            return
        known = first.value.traits if isinstance(first.value, Tensor) else frozenset()
        squares = (event.op in REDUCTIONS or event.op == "sqrt") and SQUARES in known
        if squares and LIFTED_SQUARES in known and half.because is Because.ASSUMED:
            return
        lengths = LENGTH_PRODUCTS in event.result.traits - known
        what = "squares" if squares else "product of two norms" if lengths else "variance"
        if squares or lengths or event.op == "var":
            announced = half.because in (Because.ANNOUNCED, Because.ASSUMED) or half.dtypes != _FLOAT16
            unseen = [Premise.FLOAT16_CHOSEN] if announced else []
            yield self.report(
                event,
                f"the {what} of a tensor that {'can be' if announced else 'is'} float16",
                advice="Convert the tensor to float32 before it is squared: x.float().",
                reason="" if squares or lengths else _VARIANCE,
                premises=[*unseen, Premise.OUT_OF_RANGE],
                notes=[(half.node, half.text)] if half.node is not None else (),
            )

    def on_sensitive(self, event: Sensitive) -> Iterator[Report]:
        half = event.operand.half
        if event.how in _PRODUCTS:
            reason, advice = _PRODUCTS[event.how]
            yield self.report(
                event, precision_message(event), reason=reason, advice=advice, claims=(), notes=operand_evidence(event)
            )
        elif (
            event.op in LENGTHS
            and event.how not in (How.ELSEWHERE, How.GRADIENT)
            and half is not None
            and "float16" in half.dtypes
        ):
            advice = "Convert the tensor to float32 before it is squared: x.float()."
            yield self.report(
                event, precision_message(event), reason=OUTSIDE, advice=advice, claims=(), notes=operand_evidence(event)
            )

    def on_scaled_late(self, event: ScaledLate) -> Iterator[Report]:
        if "float16" in event.half.dtypes:
            yield self.report(
                event,
                "products of rows are scaled down only after they were computed, in float16 perhaps past 65504",
                reason="The product of two rows is infinite in float16 where it is past 65504.",
                advice="Scale one of the factors before the product: (x * scale) @ y.",
                notes=[(event.half.node, event.half.text)] if event.half.node is not None else (),
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, Operation) or LENGTH_PRODUCTS in event.result.traits or event.op == "sqrt":
            return None
        places = squared(event.operands[0].node) if event.op in REDUCTIONS else [event.operands[0].node]
        edits = tuple(map(rewrite.add_float, places))
        return Fix("Square in float32", edits, Applicability.UNSAFE) if edits else None
