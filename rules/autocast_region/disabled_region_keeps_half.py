"""AMP104."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.regex import regex
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import CastBack, Event, InputsStayHalf, ScriptEnd, StaysHalf
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class DisabledRegionKeepsHalf(Rule):
    """Float32 math that is meant to be safe from autocast runs in half all the same.

    ## Why is this bad?
    `autocast(enabled=False)` converts nothing: a tensor that the surrounding region made half stays half, and the
    operations in the disabled region compute on in half. Where a tensor meets a float32 one, a matrix product raises.
    The other way round, `.float()` without a disabled region does nothing for a matrix product: autocast casts back.

    ## Example
    ```python
    with torch.autocast("cuda", enabled=False):
        loss = torch.log(scores.sigmoid()).mean()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", enabled=False):
        loss = torch.log(scores.float().sigmoid()).mean()
    ```

    Reported are tensors that certainly are half, those whose neighbours are converted in the same statement, and, as an
    info, what a layer or a matrix product returned before the region, and parameters of a method that other files call,
    unless they are named after positions or frequencies. An info, too, are such tensors that reach a layer, whose
    float32 weights refuse half, and results of layers that the region passes on unconverted where it converts others.
    Selected by its code, the rule also tells, as an info, of products in a function that converts their operands to
    float32 and the result back, or both a layer's weights and its input to float32: a region around its caller undoes
    that. And it tells of a function or block that switches autocast off and converts nothing.

    ## Fix safety
    The tensor is converted where the region first mentions it, or at its beginning where it does so more than once.
    Converting what is float32 already does nothing. A product that autocast casts back is for you to take out.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP104"
    name = "disabled-region-keeps-half"
    severity = Severity.WARNING
    claims = (Claim(Sign.TAKES),)
    screen = (b"autocast",)
    assumed = (regex(rb"\.float\(\)|float32|torch\.float\b"), regex(rb"einsum|matmul|\bb?mm\(| @ |[lL]inear\("))
    fixable = Applicability.SAFE

    def __init__(self) -> None:
        self._beside_others: list[StaysHalf] = []
        self._given: list[StaysHalf] = []
        self._unconverted: list[InputsStayHalf] = []
        self._told: set[cst.CSTNode] = set()

    def on_stays_half(self, event: StaysHalf) -> Iterator[Report]:
        if event.certain:
            yield self._stays(event, event.half)
        else:
            (self._given if event.given else self._beside_others).append(event)

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for given in self._given:
            if given.node not in event.index.of_data:
                yield self._stays(given, given.half)
        for unconverted in self._unconverted:
            if unconverted.off not in self._told:
                yield self._comes_unconverted(unconverted)
        converted = event.index.lifted
        for other in self._beside_others:
            if other.statement in converted:
                yield self._stays(other, converted[other.statement])

    def on_inputs_stay_half(self, event: InputsStayHalf) -> Iterator[Report]:
        self._unconverted.append(event)
        yield from ()

    def _comes_unconverted(self, event: InputsStayHalf) -> Report:
        self._told.add(event.off)
        if event.beside is not None:
            return self.report(
                event,
                f"nothing converts {event.name} in this disabled region, which a caller's region can make half",
                reason="A disabled region leaves tensors as they are: float32 weights refuse half.",
                advice=f"Convert it, too: {event.name}.float().",
                notes=[(event.beside, "another result is converted here")],
                premises=[Premise.REGION_OF_CALLER],
                severity=Severity.INFO,
                claims=(),
            )
        return self.report(
            event,
            f"autocast is switched off here, and nothing converts {event.name}, which a caller's region can make half",
            reason="A disabled region leaves tensors as they are: the operations in it compute in half.",
            advice=f"Convert it first: {event.name}.float().",
            premises=[Premise.REGION_OF_CALLER],
            severity=Severity.INFO,
            claims=(),
        )

    def _stays(self, event: StaysHalf, seen: cst.CSTNode | None) -> Report:
        self._told.add(event.off_with)
        notes = [(event.off_with, "autocast is switched off here, which converts nothing")]
        if seen is not None:
            notes.append((seen, "half since here" if event.certain else "another tensor is converted here"))
        assumed = not event.certain and event.given
        runs = "raises" if event.refused else "runs in half"
        return self.report(
            event,
            f"where a caller's region has made its operand half, {event.op} {runs} in this disabled region"
            if assumed
            else f"{event.op} runs on a tensor that comes into the disabled region in half",
            reason="A disabled region leaves tensors as they are: the layer refuses half beside its float32 weights."
            if event.refused
            else "A disabled region leaves tensors as they are: the operation computes in half.",
            advice="Convert the tensor with .float() first.",
            at=event.first,
            notes=[*notes, (event.node, "the operation runs here")],
            premises=[Premise.REGION_OF_CALLER] if assumed else (),
        )

    def on_cast_back(self, event: CastBack) -> Iterator[Report]:
        yield self.report(
            event,
            f"autocast casts the operands of {event.op} back to half"
            if event.region is not None
            else f"where autocast is on around the caller, it casts the operands of {event.op} back to half",
            reason="With autocast on, .float() on the operands of a matrix product only costs time.",
            advice="Compute it in a region with enabled=False.",
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, StaysHalf) or not isinstance(event.off_with, cst.With):
            return None
        edit = rewrite.convert_in(event.off_with, event.place)
        return Fix("Convert to float32", (edit,)) if edit else None
