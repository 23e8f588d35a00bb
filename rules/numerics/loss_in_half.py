"""AMP408."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.casting import used_as_tensor
from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.regex import regex
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import (
    FLAGS,
    FREQUENCIES,
    UNIFORM,
    Because,
    Event,
    How,
    LossOfOutput,
    LossUnlifted,
    Operand,
    Operation,
    Sensitive,
)
from amplint.semantics.values.values import Tensor
from amplint.source import syntax as cst
from amplint.torchlib.names import HALF_ASSUMED, HALF_DTYPES, HALF_SIGNS
from amplint.torchlib.policy import LOSSES

from .sensitive import OUTSIDE, operand_evidence, precision_message

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

OF_CLASSES = ("cross_entropy", "nll_loss")
"""Losses computed in the dtype of their first input, whatever that of the labels is."""
PROBABILITIES = frozenset({"softmax", "softmin"})
CURVES = PROBABILITIES | {"exp", "expm1", "log", "log1p", "log2", "log10", "logsumexp", "log_softmax"}
"""Operations that grow faster than their input, or are sensitive to small inputs."""
_TOLD_ELSEWHERE = frozenset({FLAGS, UNIFORM})


_NO_AUTOCAST = {Because.POLICY: "FSDP and DeepSpeed enter no autocast"}
_ADVISED = {Because.POLICY: "; a policy of FSDP2 has output_dtype for it"}


class LossInHalf(Rule):
    """A loss, an exponential or a logarithm is computed in half, because no autocast is there to lift it.

    ## Why is this bad?
    CUDA autocast computes losses, and the logarithms and exponentials in them, in float32. Outside of a region, in a
    model that was converted to half or on what left the region, they run in the dtype of their inputs: the float16 mean
    of squared errors is infinite where one error is past 255, small probabilities are 0 and their logarithm infinite,
    and the loss itself has three digits in float16, two in bfloat16. An exponential in float16 is infinite past 11.

    The policy of a model that FSDP shards is no autocast: what the model returns is in the policy's dtype, and a loss
    outside of it too, unless the policy has an `output_dtype` or the model converts its output. This is an info. So is
    the loss of a model that is loaded in half, by `from_pretrained`, outside of an `Accelerator`, which converts, and
    the cross-entropy of what an unseen model returned in a region, computed behind it. So is the finding in a function
    that asks for the dtype of its input: it is written for callers that may have a region. And so is an exponential or
    a logarithm that is no loss itself: outside of training half may be enough for it. A `log_softmax` that is given a
    half `dtype` is an info as well.

    Where the rule is selected by name or `ALL`, it also reports what nothing shows to be half, and what would be in a
    half model: exponentials of a module's own weights, a softmax that chooses among experts, that tokens are drawn by
    or whose result is converted back to another tensor's dtype, and a loss on what another branch of the same `if`, or
    another loss of the file, converts to float32, in a file that loads its model in half, or in a class of
    transformers' pretrained models, whose users choose the dtype. In files that do not train themselves, it reports a
    softmax that a divergence of distributions is computed from, or whose logarithm is taken. It also reports a sigmoid
    or hyperbolic tangent that is taken from 1 for a power or a logarithm, as in a focal loss: autocast leaves it in
    half, so that nothing of what is close to 1 is left.

    ## Example
    ```python
    model = Net().cuda().half()
    loss = F.cross_entropy(model(images.half()), labels)
    ```

    ## Use instead
    ```python
    model = Net().cuda().half()
    loss = F.cross_entropy(model(images.half()).float(), labels)
    ```

    ## Fix safety
    Safe: the inputs of the loss are converted to float32, as autocast would do. The loss and what is computed from it
    is then float32 too, the gradients that reach the model are half as before. What an unseen model returned is
    converted only where the same function uses it as a tensor elsewhere.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#cuda-op-specific-behavior>
    """

    code = "AMP408"
    name = "loss-in-half"
    severity = Severity.WARNING
    claims = (Claim(Sign.TAKES),)
    screen = (
        regex(HALF_SIGNS.pattern + rb"|deepspeed"),
        (b"loss", b"Loss", b"entropy", b"softm", b"kl_div", b"exp", b".log"),
    )
    assumed = (
        regex(
            HALF_ASSUMED.pattern
            + rb"|dtype=|\.float\(\)|sigmoid\(|cumsum\(|multinomial\("
            + rb"|softmax[^\n]*\.log\(|log\([^\n]*softmax|kl_div|log_softmax"
        ),
        (b"loss", b"Loss", b"criterion", b"entropy", b"log_softmax", b"softmax", b"exp(", b"softplus", b"sigmoid("),
    )
    fixable = Applicability.SAFE

    def on_operation(self, event: Operation) -> Iterator[Report]:
        first = event.operands[0] if event.operands else None
        reported = LOSSES | (CURVES - PROBABILITIES if event.region is None else {"log_softmax"})
        if first is not None and event.op == "log_softmax" and not first.dtype and event.result.dtype in HALF_DTYPES:
            yield self.report(
                event,
                f"log_softmax is asked for {event.result.dtype}",
                reason="The logarithms of small probabilities have two or three digits there.",
                advice="Leave its dtype out, and convert the result where memory is short.",
                claims=(),
                severity=Severity.INFO,
            )
        if first is None or not _is_half(first) or event.op not in reported:
            return
        if _is_discarded(event):
            return  # a probe for what the device can do
        if isinstance(first.value, Tensor) and (first.value.traits & _TOLD_ELSEWHERE or first.value.floor is not None):
            return  # the logarithm of a mask is exact, and other rules report the rest
        if FREQUENCIES in event.result.traits:
            return  # they are no loss, and rounded before: AMP406 reports them
        follows = event.op in OF_CLASSES and event.region is None and event.result.dtype is None
        if event.result.dtype in HALF_DTYPES or follows:
            unseen = (Premise.AS_TARGET,) if event.unrecorded else ()
            half, lifted = first.half, event.asked and event.region is None
            yield self.report(
                event,
                f"{event.op} runs in {first.dtype}{', unless a caller has autocast on' if lifted else ''}",
                reason="Logarithms, exponentials and squares need float32, and nothing lifts them to it here.",
                severity=Severity.INFO if lifted else None,
                premises=() if event.op in LOSSES else (Premise.IN_LOSS, *unseen),
                advice="Convert the inputs of the loss: x.float()."
                if event.op in LOSSES
                else "Convert what goes into it: x.float().",
                notes=[(half.node, half.text)] if half is not None and half.node is not None else (),
            )

    def on_sensitive(self, event: Sensitive) -> Iterator[Report]:
        if event.how is How.COMPLEMENT:
            yield self.report(
                event,
                precision_message(event),
                reason="Autocast leaves it in half, where a sigmoid is 1 past 8.3 in float16 and past 6.2 in bfloat16.",
                advice="Convert the logits first, x.float(), or use a loss that takes logits.",
                claims=(),
                notes=operand_evidence(event),
            )
        elif event.how is How.COMPARED:
            yield self.report(
                event,
                precision_message(event),
                reason="Distributions that are alike differ in digits that half does not have.",
                advice=f"Compute it in float32: {event.op}(..., dtype=torch.float32).",
                claims=(),
                notes=operand_evidence(event),
            )
        elif event.op in LOSSES | CURVES | {"softplus"} or event.how is How.ELSEWHERE:
            back = event.how is How.NARROWED
            yield self.report(
                event,
                precision_message(event),
                reason=OUTSIDE,
                advice="Convert back behind it." if back else "Convert what goes into it: x.float().",
                claims=(),
                notes=operand_evidence(event),
            )

    def on_loss_of_output(self, event: LossOfOutput) -> Iterator[Report]:
        half = event.output.half
        if half is None:
            return
        dtypes = " or ".join(sorted(half.dtypes))
        if half.because is Because.POLICY or not event.assumed:
            if event.loss not in {*OF_CLASSES, "log_softmax", "logsumexp"}:
                return  # float32 targets widen it
            yield self.report(
                event,
                f"{event.loss} gets what a model returned in {dtypes}, unless the model converts that itself",
                reason=f"{_NO_AUTOCAST.get(half.because, 'Nothing casts it here')}: what is computed of it stays so.",
                advice=f"Convert the output of the model, x.float(){_ADVISED.get(half.because, '')}.",
                claims=(),
                notes=[(half.node, half.text)] if half.node is not None else (),
                severity=Severity.INFO,
            )
            return
        known = "outside of any region" if event.seen else "and autocast lifts PyTorch's own losses only"
        yield self.report(
            event,
            f"{event.loss} gets what a model returned in {dtypes}, {known}",
            reason="Logarithms, exponentials and squares need float32.",
            advice="Convert the output of the model first: x.float().",
            claims=(),
            notes=[(half.node, half.text)] if half.node is not None else (),
        )

    def on_loss_unlifted(self, event: LossUnlifted) -> Iterator[Report]:
        place, note = "in a file that has its model in half", "the model is loaded here"
        if event.lifted:
            place, note = "as another loss of this file does", "this one is computed in float32"
        elif event.pretrained:
            place, note = "in a model that can be loaded in half", "from_pretrained makes it in the dtype it is told"
        yield self.report(
            event,
            f"{event.loss} gets what nothing here converts to float32, {place}",
            reason="Logarithms, exponentials and squares need float32.",
            advice="Convert the inputs of the loss: x.float().",
            claims=(),
            notes=[(event.beside, note)],
            severity=Severity.INFO,
            premises=[Premise.HALF_THERE],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if isinstance(event, LossOfOutput):
            node = event.output.node
            known = isinstance(event.output.value, Tensor) or used_as_tensor(node, rewrite)
            return Fix("Convert what the loss is given to float32", (rewrite.add_float(node),)) if known else None
        if not isinstance(event, Operation):
            return None
        edits = tuple(rewrite.add_float(operand.node) for operand in event.operands if _is_half(operand))
        return Fix(f"Compute {'the loss' if event.op in LOSSES else event.op} in float32", edits) if edits else None


def _is_discarded(event: Event) -> bool:
    """Whether a statement is the call alone, so that nothing takes its result."""
    parts = event.statement.body if isinstance(event.statement, cst.SimpleStatementLine) else ()
    return any(isinstance(part, cst.Expr) and part.value is event.node for part in parts)


def _is_half(operand: Operand) -> bool:
    return operand.half is not None and operand.dtype in HALF_DTYPES
