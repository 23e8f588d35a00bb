"""AMP103."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, Forward, HalfCast, Operation, ScriptEnd
from amplint.semantics.values.values import Autocast
from amplint.source import syntax as cst
from amplint.torchlib.names import DEFAULT_SETTERS, HALF_DTYPES

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class ManualCastInAutocast(Rule):
    """A model or its inputs are converted to half by hand, and autocast is on.

    ## Why is this bad?
    Autocast keeps weights and inputs in float32 and converts them for each operation that is safe in half. Half weights
    lose small updates, half inputs lose digits that float32 operations need, and `.half()` where the region may run in
    bfloat16 overflows past 65504.

    ## Example
    ```python
    model = Net().cuda().half()
    with torch.autocast("cuda"):
        loss = criterion(model(inputs.half()), targets)
    ```

    ## Use instead
    ```python
    model = Net().cuda()
    with torch.autocast("cuda"):
        loss = criterion(model(inputs), targets)
    ```

    Half weights of models that only infer, or that no optimizer updates, are a choice and not reported. Neither is the
    other half dtype for what is stored on the CPU: NumPy has no bfloat16. Weights that an optimizer is seen to update
    are AMP410's. A model whose optimizer is not visible is an info. Everything else rests on numbers that are not
    seen, and is reported only where the rule is selected by its code: an input that is converted, and a tensor that is
    converted to the other half dtype.

    ## Fix safety
    An input is converted to float32 instead. The same elsewhere, or for a model, is unsafe: code may rely on half.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP103"
    name = "manual-cast-in-autocast"
    severity = Severity.WARNING
    yields_to = ("AMP410",)
    goes_by = ("weights_cast",)
    claims = (Claim(Sign.GIVES, ops=("to",)),)
    screen = (b"autocast", (b"half", b"float16"))
    fixable = Applicability.SAFE

    def __init__(self) -> None:
        self._weights: list[Report] = []
        self._inputs: list[Report] = []
        self._casts: dict[cst.CSTNode, HalfCast] = {}
        self._computed_with: set[cst.CSTNode | None] = set()

    def on_forward(self, event: Forward) -> Iterator[Report]:
        if event.region is not None and event.weights_cast is None:
            self._inputs += [self._conversion(event, node) for node in event.inputs_cast]
        elif event.region is not None and event.gradients is not False and event.training is not False:
            assert event.weights_cast is not None
            self._weights.append(self._conversion(event, event.weights_cast))
        yield from ()

    def _conversion(self, call: Forward, node: cst.CSTNode) -> Report:
        weights = node is call.weights_cast
        return self.report(
            replace(call, node=node),
            f"a model that trains under autocast is {'made in' if _sets_default(node) else 'converted to'} half"
            if weights
            else "the input of a model that runs under autocast is converted to half",
            reason="Weights lose small updates in half."
            if weights
            else "It loses digits, which matter where it meets an operation that autocast runs in float32.",
            advice="Leave the conversion to autocast.",
            notes=[(call.node, "this forward pass runs under autocast")],
            claims=(Claim(Sign.HOLDS), *self.claims) if weights else None,
            premises=[Premise.UPDATED] if weights else [Premise.WIDE_FIRST, Premise.DIGITS],
        )

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        yield from self._inputs
        if event.index.backwards and (event.index.steps or event.index.made):
            yield from self._weights
        for cast in self._casts.values():
            yield self._other_half_dtype(cast)

    def on_operation(self, event: Operation) -> Iterator[Report]:
        self._computed_with.update(operand.half.node for operand in event.operands if operand.half is not None)
        yield from ()

    def on_half_cast(self, event: HalfCast) -> Iterator[Report]:
        dtypes = event.region.dtypes if event.region is not None else None
        other = HALF_DTYPES - {event.dtype}
        differs = dtypes is not None and event.dtype not in dtypes and dtypes & other
        if event.region_with is not None and differs and not event.stored:
            self._casts.setdefault(event.node, event)
        yield from ()

    def _other_half_dtype(self, event: HalfCast) -> Report:
        assert event.region_with is not None
        overflows = event.dtype == "float16"
        return self.report(
            event,
            f"a tensor is converted to {event.dtype} in a region that runs in {'bfloat16' if overflows else 'float16'}",
            reason="float16 overflows past 65504, where bfloat16 does not; an operation on both may raise."
            if overflows
            else "bfloat16 keeps 8 bits of a number, where float16 keeps 11; an operation on both may raise.",
            notes=[(event.region_with, "autocast is on from here")],
            advice="Leave the conversion to autocast.",
            premises=[
                Premise.OUT_OF_RANGE if overflows else Premise.DIGITS,
                *([] if event.node in self._computed_with else [Premise.COMPUTED_WITH]),
            ],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, (Forward, HalfCast)) or not isinstance(event.node, cst.Call):
            return None
        if isinstance(event, Forward) and event.node is event.weights_cast:
            edit = rewrite.drop_conversion(event.node)
            return Fix("Keep the model in float32", (edit,), Applicability.UNSAFE) if edit else None
        safe = isinstance(event, Forward) and not _follows_tensor(event.region)
        safety = Applicability.SAFE if safe else Applicability.UNSAFE
        edit = rewrite.float_instead(event.node)
        return Fix("Convert to float32", (edit,), safety) if edit else None


def _follows_tensor(region: Autocast | None) -> bool:
    """Whether a region takes the dtype of a tensor, which may be the one that is cast."""
    made = region.node if region is not None else None
    given = [argument.value for argument in made.args] if isinstance(made, cst.Call) else []
    return any(isinstance(value, cst.Attribute) and value.attr.value == "dtype" for value in given)


def _sets_default(node: cst.CSTNode) -> bool:
    """Whether this is no conversion, but sets the dtype in which parameters are constructed."""
    called = node.func.attr.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else ""
    return f"torch.{called}" in DEFAULT_SETTERS
