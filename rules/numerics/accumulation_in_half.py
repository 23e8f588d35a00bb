"""AMP407."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.regex import regex
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import (
    FLAGS,
    INTEGERS,
    AverageAlike,
    Event,
    HalfAverage,
    HalfSum,
    How,
    Operation,
    Sensitive,
    WeightsAveraged,
)
from amplint.semantics.values.values import Tensor, number
from amplint.source import syntax as cst
from amplint.torchlib.names import HALF_ASSUMED, HALF_DTYPES, HALF_SIGNS

from .sensitive import OUTSIDE, operand_evidence, precision_message

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

STEPS = {"float16": 2.0**-12, "bfloat16": 2.0**-9}
SUMS = ("sum", "cumsum", "cumprod", "logcumsumexp")
COUNTED = frozenset({FLAGS, INTEGERS})
_HALF_SUM = Claim(Sign.GIVES, ops=("add",))


class AccumulationInHalf(Rule):
    """A running sum, average or count is kept in half.

    ## Why is this bad?
    A sum in float16 no longer grows by what is less than 1/2048 of it, in bfloat16 1/256, and a float16 sum is infinite
    past 65504. A moving average with a decay of 0.999 changes by less than half a step of bfloat16, one with 0.9999
    by less than one of float16, so it stays what it was. Counts are exact up to 2048 and 256. Sums of overlapping
    windows are reported as an info: how much they add up to, the weights decide.

    Where the rule is selected by name or `ALL`, it also reports sums of half tensors, running sums whose result is
    converted back to another tensor's dtype, running averages of weights kept in the dtype of the weights, norms of
    gradients that are half where the parameters are, and running sums of gradients in the backward pass of a custom
    autograd function, or in a kernel that it calls.

    ## Example
    ```python
    class ModelEMA:
        def __init__(self, model):
            self.ema = deepcopy(model).half()
    ```

    ## Use instead
    ```python
    class ModelEMA:
        def __init__(self, model):
            self.ema = deepcopy(model).float()
    ```
    Add up losses as Python numbers (`total += loss.item()`) or in float32 (`total += loss.float()`), and count with
    `mask.sum()`, which adds up booleans in int64.

    ## Fix safety
    What a sum is made of is converted to float32, and the average that an object keeps is left in the dtype of the
    weights. There is no fix where the sum was half from its beginning.

    ## References
    - <https://arxiv.org/abs/1710.03740>
    """

    code = "AMP407"
    name = "accumulation-in-half"
    severity = Severity.WARNING
    claims = (Claim(Sign.TAKES, ops=("add", "mul", "sum")),)
    screen = (HALF_SIGNS, (b"+=", b"mul_(", b"sum(", b"lerp_(", b"*=", b"ModelEma", b"EMAModel"))
    assumed = (
        regex(HALF_ASSUMED.pattern + rb"|averag|(?i:\bema)|_ema\b"),
        (b"cumsum", b"cumprod", b"logcumsumexp", b"norm(", b".half()", b"backward(ctx", b"parameters()"),
    )
    fixable = Applicability.SAFE
    reason = "What is small beside the sum is rounded away, and the sum stops changing."

    def on_half_sum(self, event: HalfSum) -> Iterator[Report]:
        notes = [(event.half.node, event.half.text)] if event.half.node is not None else []
        if event.windows:
            message = "overlapping windows are added up in half"
            advice = "Make the tensor in float32, or keep the weights small: a float16 sum is infinite past 65504."
            yield self.report(event, message, advice=advice, notes=notes, severity=Severity.INFO, claims=())
            return
        if event.addend is None:
            message, claims = "a loop adds up numbers in a sum that is half from its beginning", (_HALF_SUM,)
            yield self.report(event, message, advice="Begin with a float32 tensor.", notes=notes, claims=claims)
            return
        advice = "Add x.item(), a Python number, or x.float()."
        yield self.report(event, "a loop adds up half numbers in half", advice=advice, notes=notes)

    def on_half_average(self, event: HalfAverage) -> Iterator[Report]:
        message, claims = f"a running average of weights is kept in {event.dtype}", (Claim(Sign.GIVES, ops=("to",)),)
        yield self.report(event, message, advice="Keep the average in float32.", claims=claims)

    def on_weights_averaged(self, event: WeightsAveraged) -> Iterator[Report]:
        if event.share < STEPS[event.dtype]:
            yield self.report(
                event,
                f"a running average of weights is kept in {event.dtype}, and moves by {event.share:.1g} of the way",
                reason=f"{event.dtype} rounds away what is less than {STEPS[event.dtype]:.1g} of a weight.",
                advice="Keep the average in float32: copy.deepcopy(model).float().",
                notes=[(event.cast, f"the weights become {event.dtype} here")],
                claims=(),
            )

    def on_average_alike(self, event: AverageAlike) -> Iterator[Report]:
        yield self.report(
            event,
            "a running average of weights is kept in their dtype",
            reason="Half weights round away what is less than 1/4096 of a weight in float16, 1/512 in bfloat16.",
            advice="Keep the average in float32: p.detach().float().",
            notes=[(event.by, "the average moves here")],
            claims=(),
        )

    def on_sensitive(self, event: Sensitive) -> Iterator[Report]:
        if event.op in SUMS or event.how is How.GRADIENT:
            advice = f"Add up in float32: {event.op}(..., dtype=torch.float32)."
            if event.how is How.KERNEL:
                advice = "Make it with dtype=torch.float32, have the kernel add up in that, and convert the sum."
            yield self.report(
                event, precision_message(event), reason=OUTSIDE, advice=advice, claims=(), notes=operand_evidence(event)
            )

    def on_operation(self, event: Operation) -> Iterator[Report]:
        first = event.operands[0] if event.operands else None
        value = first.value if first is not None else None
        if first is None or first.half is None or not isinstance(value, Tensor) or value.dtype not in HALF_DTYPES:
            return
        factors = [known for operand in event.operands[1:] if (known := number(operand.value)) is not None]
        if event.op == "mul" and event.in_place and any(0 < 1 - factor < STEPS[value.dtype] for factor in factors):
            said = f"a factor of {factors[0]:g} changes nothing in {value.dtype}", "Keep the average in float32."
        elif event.op == "sum" and COUNTED & value.traits and event.result.dtype in HALF_DTYPES:
            said = f"a count is kept in {value.dtype}", "Add up the mask itself (mask.sum()), or convert: x.float()."
        else:
            return
        notes = [(first.half.node, first.half.text)] if first.half.node is not None else []
        yield self.report(event, said[0], advice=said[1], notes=notes)

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        edit = None
        if isinstance(event, HalfSum) and event.addend is not None:
            edit = rewrite.add_float(event.addend)
        elif isinstance(event, HalfAverage) and isinstance(event.node, cst.Call):
            edit = rewrite.drop_conversion(event.node)
        elif isinstance(event, Operation) and event.op == "sum":
            edit = rewrite.add_float(event.operands[0].node)
        return Fix("Accumulate in float32", (edit,)) if edit is not None else None
