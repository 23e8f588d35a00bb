"""AMP504."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Clash, Event, Narrowed, Operation, ParameterApart, ScriptEnd
from amplint.source import syntax as cst

from .float32 import MAKING, buffer_of, takes_dtype

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_OF_CONTENT = ("tensor", "as_tensor", "Tensor", "FloatTensor")
_SIZED = ("zeros", "ones", "empty", "rand", "randn")
"""Functions that create a tensor from its elements (`_OF_CONTENT`), or from its sizes."""
_WIDENS = "A float32 tensor widens a half one, and layers behind it refuse what is wider than they are."


class HardCodedFloat32Buffer(Rule):
    """A tensor made without a dtype is joined with half tensors.

    ## Why is this bad?
    `torch.zeros(...)` and its kind make float32 tensors, in an autocast region too. Joined with half tensors by `cat`
    or `stack` they make the whole result float32: it takes twice the memory, and what comes after runs in float32
    where autocast does not convert it, or raises where a kernel asks for one dtype.

    A result that is converted to half again is not reported.

    Selected by its code, the rule also reports tensors made for others, with their size or on their device but not
    with their dtype, where nothing says whether those are half, parameters and layers in the size of a layer that a
    function is given, as adapters have, a mask that is converted to float32, where a layer computes with it or it is
    converted to the dtype of what it meets in another place, and normalisation that is written out with statistics
    which the module keeps. All are infos.

    ## Example
    ```python
    padding = torch.zeros(batch, missing, device=features.device)
    features = torch.cat([features, padding], dim=1)
    ```

    ## Use instead
    ```python
    padding = torch.zeros(batch, missing, device=features.device, dtype=features.dtype)
    features = torch.cat([features, padding], dim=1)
    ```
    `features.new_zeros(batch, missing)` says the same.

    ## Fix safety
    The fix passes the dtype of the half tensor where both stand in one call. The result then stays half.

    ## References
    - <https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.dtype>
    """

    code = "AMP504"
    name = "hard-coded-float32-buffer"
    severity = Severity.WARNING
    claims = (Claim(Sign.WIDENS),)
    screen = ((b"autocast", b"half()", b"float16"), (b"cat", b"stack"), MAKING)
    assumed = ((*MAKING, b"type_as(", b"where(", b".float()", b".in_features", b".in_channels"),)
    fixable = Applicability.UNSAFE
    reason = "Without a dtype the new tensor is float32, and so is everything it is joined with."

    def __init__(self) -> None:
        self._joins: dict[cst.CSTNode, Operation] = {}
        self._widened: dict[cst.CSTNode, Clash] = {}
        self._narrowed: set[cst.CSTNode] = set()
        self._made: dict[cst.CSTNode, Clash] = {}

    def on_operation(self, event: Operation) -> Iterator[Report]:
        if buffer_of(event) is not None and (event.op != "stack" or event.result.dtype == "float32"):
            self._joins.setdefault(event.node, event)
        yield from ()

    def on_narrowed(self, event: Narrowed) -> Iterator[Report]:
        self._narrowed.add(event.node)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        told = set[cst.CSTNode]()
        for join in (one for node, one in self._joins.items() if node not in self._narrowed):
            found = buffer_of(join)
            assert found is not None
            half, call = found
            told.add(call)
            origin = [(half.half.node, half.half.text)] if half.half is not None and half.half.node is not None else []
            yield self.report(
                join,
                f"this {half.dtype} tensor becomes float32 by {join.op}: the tensor made without a dtype is float32",
                advice=_advice(call),
                notes=[*origin, (call, "the float32 tensor is made here")],
                premises=[Premise.NOT_REPLACED] if _is_empty(call) else (),
            )

        for clash in (one for made, one in self._made.items() if made not in told):
            assert clash.steady.made is not None
            yield self.report(
                clash,
                f"this tensor is made in float32, even where what it meets in {clash.op} is half",
                reason=_WIDENS,
                advice=_advice(clash.steady.made),
                at=clash.steady.made,
                notes=[(clash.node, "here it meets a tensor that can be half")],
            )

        for clash in (one for node, one in self._widened.items() if node not in self._narrowed):
            assert clash.converted is not None
            yield self.report(
                clash,
                f"float32 by conversion, this tensor makes {clash.op} float32 even where what it meets is half",
                reason=_WIDENS,
                advice="Convert it to the dtype of the other instead: x.type_as(y) or x.to(y.dtype).",
                at=clash.converted,
                notes=[(clash.node, "here it meets a tensor that can be half")],
            )

    def on_parameter_apart(self, event: ParameterApart) -> Iterator[Report]:
        kind = "layer" if event.made is event.node else "parameter"
        yield self.report(
            event,
            f"this {kind} has the size of {event.layer} but not its dtype: float32 even where its weights are half",
            reason="Both compute with one input, and layers refuse one whose dtype is not that of their weights.",
            advice=f"Make it with dtype={event.layer}.weight.dtype, or convert what it computes with.",
            at=event.made,
            claims=(),
        )

    def on_clash(self, event: Clash) -> Iterator[Report]:
        if event.kept:
            yield self.report(
                event,
                "statistics that stay float32 make this normalisation float32 even where its input is half",
                reason="Autocast leaves buffers alone; the result takes twice the memory until a layer converts it.",
                advice="Convert the factor and the shift to x.dtype, or use F.batch_norm.",
            )
            return
        if event.converted is not None and event.refusal is None:
            self._widened.setdefault(event.node, event)
        elif event.refusal is None and event.steady.made is not None:
            self._made.setdefault(event.steady.made, event)

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        found = buffer_of(event) if isinstance(event, Operation) else None
        if found is None or not isinstance(found[0].node, cst.Name):
            return None
        half, call = found
        if not takes_dtype(call):
            return None
        if not rewrite.span(event.node).start <= rewrite.span(call).start <= rewrite.span(event.node).end:
            return None
        edit = rewrite.set_argument(call, "dtype", f"{rewrite.text(half.node)}.dtype")
        return Fix("Use the dtype of the other tensor", (edit,), Applicability.UNSAFE) if edit else None


def _advice(call: cst.Call) -> str:
    if not takes_dtype(call):
        return "Convert it to the dtype of the other: .to(x.dtype)."
    return "Pass dtype=x.dtype, or use x.new_zeros(...) and its kind."


def _is_empty(call: cst.Call) -> bool:
    """Whether a new tensor has no elements: it is often replaced by the first tensor to be joined with it."""
    node = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    name = node.value if isinstance(node, cst.Name) else ""
    given = [argument.value for argument in call.args if argument.keyword is None]
    listed = given[0].elements if given and isinstance(given[0], (cst.List, cst.Tuple)) else None
    if name in _OF_CONTENT or not given:
        return not given or (listed is not None and not listed)
    sizes = [element.value for element in listed] if listed is not None else given
    return name in _SIZED and any(isinstance(size, cst.Integer) and size.evaluated_value == 0 for size in sizes)
