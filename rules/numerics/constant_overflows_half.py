"""AMP401."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import limit
from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import INVERTED, Event, FarConstant, TensorOp
from amplint.semantics.tensors.tensors import FROM_PARAMETER
from amplint.torchlib.names import FLOAT16_MAX, HALF_SIGNS, HUGE_ASSUMED, HUGE_NUMBERS

from .constants import number_notes

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

ARITHMETIC = ("Add", "Subtract", "Multiply")
CLAMPS = ("clamp_min", "clamp_max")
FILLS = (
    *("masked_fill", "masked_fill_", "where", "index_put"),
    *("index_fill", "index_fill_", "scatter", "scatter_", "fill_diagonal"),
)


class ConstantOverflowsHalf(Rule):
    """A constant past 65504 meets a float16 tensor.

    ## Why is this bad?
    The largest float16 number is 65504. `scores.masked_fill(mask, -1e9)` on a float16 tensor raises `RuntimeError:
    value cannot be converted to type at::Half without overflow`, as do `fill_`, `full` and their kind; `where` and
    arithmetic make infinities, which softmax and the loss turn into NaN. In float32 and bfloat16 the line works, so it
    breaks when mixed precision is switched on. Under CUDA autocast, softmax, exp, sums, norms and losses return
    float32, where -1e9 is fine.

    Where the rule is selected by name or `ALL`, it goes by names, too: an unseen function that is given a mask and
    such a number fills by it, and an imported `NEAR_INF` is such a number. It then also reports the limits of an
    input's dtype where they fill a matrix product of that input: autocast makes the product float16 and leaves the
    input alone.

    ## Example
    ```python
    scores = scores.masked_fill(mask, -1e9)
    ```

    ## Use instead
    ```python
    scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    ```

    ## Fix safety
    Only a value that masks elements is replaced, by the lowest or highest number of the tensor's own dtype, which means
    "as small (or large) as can be" just like the old one.

    ## References
    - <https://docs.pytorch.org/docs/stable/type_info.html#torch.torch.finfo>
    """

    code = "AMP401"
    name = "constant-overflows-half"
    severity = Severity.ERROR
    claims = (Claim(Sign.TAKES, ("float16",)), Claim(Sign.RAISES, texts=("overflow",)))
    screen = (HALF_SIGNS, HUGE_NUMBERS)
    assumed = (HUGE_ASSUMED, (b"mask", b"where", b"fill_", b"_fill", b"full", b"_INF", b"softmax", b"] = -"))
    fixable = Applicability.SAFE
    reason = "The largest float16 number is 65504; anything beyond raises or becomes infinity."

    def on_tensor_op(self, event: TensorOp) -> Iterator[Report]:
        number, op = event.number, event.op
        if number is None or math.isinf(number.value) or abs(number.value) <= FLOAT16_MAX or op == "Divide":
            return
        masks = event.assumed and op == "Multiply" and (number.value < 0 or INVERTED in event.tensor.traits)
        if (
            op in (*ARITHMETIC, *CLAMPS)
            and event.tensor.dtype is None
            and not masks
            and not (event.assumed and op in CLAMPS)
        ):
            return
        if op == "Multiply" and number.value < 0 and "causal" in event.tensor.traits:
            return  # a mask of -inf and 0, which leaves something in every row
        if number.limit_of is not None:
            yield self.report(
                event,
                f"a limit of the dtype of {number.limit_of} does not fit this product where autocast makes it float16",
                reason="Autocast casts the operands of a matrix product, and leaves them what they are elsewhere.",
                advice="Take the limit of the dtype of the tensor that is filled: torch.finfo(x.dtype).min.",
                at=number.place,
                notes=number_notes(event, number),
            )
            return
        infinity = "inf" if number.value > 0 else "-inf"
        outcome = f"becomes {infinity}" if op in ("where", "to", *ARITHMETIC) else f"raises or becomes {infinity}"
        yield self.report(
            event,
            f"{number.value:g} does not fit float16 and {'raises or limits nothing' if op in CLAMPS else outcome}",
            advice="Write torch.finfo(x.dtype).min (or .max) for a mask; else scale, or compute in float32.",
            at=number.place,
            notes=number_notes(event, number),
            severity=Severity.WARNING if op == "to" else None,
            premises=[Premise.FLOAT16_CHOSEN] if event.tensor.dtype == FROM_PARAMETER else (),
        )

    def on_far_constant(self, event: FarConstant) -> Iterator[Report]:
        yield self.report(
            event,
            f"{event.name} does not fit float16 where it is past 65504, and raises or becomes infinity",
            advice="Write torch.finfo(x.dtype).min (or .max) for a mask.",
            at=event.place,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, TensorOp) or event.number is None:
            return None
        masks = event.op in FILLS or (event.op in ("full", "Multiply") and event.number.value < 0)
        text = limit(event, rewrite) if masks else None
        if text is None:
            return None
        edit = rewrite.replace(event.number.node, text)
        certain = Applicability.SAFE if rewrite.is_fixed(event.number.node) else Applicability.UNSAFE
        return Fix("Use the limit of the tensor's dtype", (edit,), certain, imports=("import torch",))
