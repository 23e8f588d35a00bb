"""AMP405."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event
from amplint.semantics.operation_events import SQUARES, Because, Operation
from amplint.torchlib.names import HALF_SIGNS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

REDUCTIONS = ("sum", "mean", "nansum", "nanmean")


class SquareOverflowsHalf(Rule):
    """Squares of a float16 tensor are added up.

    ## Why is this bad?
    The largest float16 number is 65504, so the square of anything past 255 is infinity, and a norm, a variance or a
    mean square written out by hand is infinite as soon as one element is. Small ones vanish likewise: below 1.7e-4 a
    square is 0. Under CUDA autocast `x ** 2`, `x.pow(2)` and `x.square()` are computed in float32, but `x * x` and
    `x.var()` are not; in a model that was converted to float16 none of them is.

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
    screen = (HALF_SIGNS, (b"sum(", b"mean(", b".var(", b"torch.var("))
    assumed = ((b"sum(", b"mean(", b".var("),)
    fixable = Applicability.UNSAFE
    reason = "The square of a number past 255 is infinity in float16, that of one below 1.7e-4 is 0."

    def on_operation(self, event: Operation) -> Iterator[Report]:
        first = event.operands[0] if event.operands else None
        half = first.half if first is not None else None
        if first is None or half is None or "float16" not in half.dtypes:
            return
        if first.dtype is None and not event.assumed:
            return
        summed = event.op in REDUCTIONS and SQUARES in getattr(first.value, "traits", ())
        if summed or event.op == "var":
            announced = half.because in (Because.ANNOUNCED, Because.ASSUMED)
            yield self.report(
                event,
                f"the {'squares' if summed else 'variance'} of a tensor that {'can be' if announced else 'is'} float16",
                advice="Convert the tensor to float32 before it is squared: x.float().",
                severity=Severity.INFO if announced else None,
                notes=[(half.node, half.text)] if half.node is not None else (),
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, Operation)
        places = _squared(event.operands[0].node) if event.op in REDUCTIONS else [event.operands[0].node]
        edits = tuple(map(rewrite.add_float, places))
        return Fix("Square in float32", edits, Applicability.UNSAFE) if edits else None


def _squared(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The expressions of the tensor that `node` squares."""
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right] if isinstance(node.operator, cst.Multiply) else [node.left]
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return []
    library = isinstance(node.func.value, cst.Name) and node.func.value.value == "torch"
    return [node.args[0].value] if library and node.args else [] if library else [node.func.value]
