"""AMP502."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import (
    Clash,
    Event,
    FixedHalf,
    InputsDiffer,
    InputUnconverted,
    LiftedResult,
    Operand,
    Operation,
)
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.torchlib.names import WIDE_DTYPES

from .float32 import MEETING, WRITES, half_of, is_told_elsewhere, operand_notes

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class DtypeMismatchAfterAutocast(Rule):
    """A half tensor meets float32 weights or buffers in an operation that refuses to mix dtypes.

    ## Why is this bad?
    Inside of a region autocast converts the operands of matrix products. Outside of it nothing does: what a region has
    made half meets float32 weights, and PyTorch raises `expected m1 and m2 to have the same dtype`. Assignments to
    elements, `index_copy_`, `index_add_` and their kind are not converted inside of a region either: a float32 buffer
    does not take half values. The other way round, the layers of a model that was converted to half, or loaded in half,
    refuse float32.

    Attention of other libraries (`flash_attn`, `xformers`) is not known to autocast and wants one dtype for queries,
    keys and values. Under CUDA autocast a norm layer leaves queries and keys in float32, while the values stay half.

    Selected by its code, the rule also says where this would happen if a tensor of unknown dtype were half, or a
    dtype that is an argument or a setting, as an info, and where what autocast computes in float32, such as a
    softmax, or what is computed from the input converted to float32, is written into a tensor of the dtype of the
    input. It then reports what a model is given unconverted in code that reads or chooses the dtype of that model,
    items of a batch that are not converted to the dtype chosen for others, casts of functions, such as norms, that
    leave their result in float32 for a layer of the caller, inputs that a layer converts to float32 for weights that
    it does not convert, and conversions to a half dtype that is written out, beside an operand that is not converted.
    Pictures and sounds that a processor of transformers returns are float32 until they are converted, which many
    models in half leave to you.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        features = encoder(images)
        memory[index] = features
    scores = classifier(features)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        features = encoder(images)
        memory[index] = features.to(memory.dtype)
    scores = classifier(features.float())
    ```

    ## Fix safety
    What is written is converted to the dtype of the tensor that takes it; elsewhere the half operand is converted to
    float32, so that the operation runs in float32. Running it in the region is often what was meant.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP502"
    name = "dtype-mismatch-after-autocast"
    severity = Severity.ERROR
    claims = (Claim(Sign.RAISES, texts=("dtype", "scalar type", "type should be the same")),)
    screen = ((b"autocast", b".half()", b"float16"),)
    assumed = ((*MEETING, b"flash_attn", b".dtype", b".device)", b"_dtype)", b".half()", b"float16"),)
    fixable = Applicability.UNSAFE
    reason = "Nothing converts the operands here, and PyTorch refuses to mix dtypes in this operation."

    def __init__(self) -> None:
        self._converted: set[cst.CSTNode] = set()

    def on_operation(self, event: Operation) -> Iterator[Report]:
        half = half_of(event) or _half_weights(event)
        if event.raises is None or half is None or half.half is None or is_told_elsewhere(event):
            return
        if event.op in WRITES:
            advice = "Convert what is written to the dtype of the tensor that takes it."
        elif half is event.weights:
            advice = f"Convert the input to the dtype of the weights, .to({_dtype_of(half)})."
        else:
            advice = "Convert the half tensor with .float(), or run this in the region."
        text = f"the weights are {half.dtype} from here on" if half is event.weights else half.half.text
        notes = [(half.half.node, text)] if half.half.node is not None else ()
        severity = Severity.INFO if event.guesses else None
        yield self.report(event, f"{event.op} raises: {event.raises}", advice=advice, notes=notes, severity=severity)

    def on_inputs_differ(self, event: InputsDiffer) -> Iterator[Report]:
        why = event.half.half
        if event.half.dtype is None:
            yield self.report(
                event,
                f"{event.op} raises where autocast is on around the caller: norm layers leave some inputs in float32",
                reason="Autocast runs norm layers in float32 and products in half, and does not convert these inputs.",
                advice="Convert what the norm layers return: q.to(v.dtype).",
                premises=[Premise.REGION_OF_CALLER],
            )
            return
        yield self.report(
            event,
            f"{event.op} raises: its inputs are float32 and {event.half.dtype}",
            reason="Autocast knows nothing of this operation and does not convert its inputs.",
            advice=f"Convert the float32 ones: x.to(torch.{event.half.dtype}).",
            notes=[(why.node, why.text)] if why is not None and why.node is not None else (),
        )

    def on_input_unconverted(self, event: InputUnconverted) -> Iterator[Report]:
        dtype = f"that of {event.model} can be another" if event.model else "it is chosen"
        beside = "its dtype, or only its device, is read here" if event.model else "another item is converted here"
        yield self.report(
            event,
            f"nothing here converts this input to the dtype of its model: {dtype}",
            reason="Layers refuse an input whose dtype is not that of their weights, and no region is in sight.",
            advice=f"Convert it: x.to({event.model}.dtype)." if event.model else "Convert it as the others are.",
            notes=[(event.beside, beside)],
            claims=(),
            severity=Severity.INFO,
            premises=[Premise.OTHER_DTYPE],
        )

    def on_fixed_half(self, event: FixedHalf) -> Iterator[Report]:
        yield self.report(
            event,
            f"{event.op} raises unless its other operand is {event.half.dtype}, too: this one is in any case",
            advice="Give it the dtype of the other: x.to(y.dtype).",
            at=event.half.node,
            claims=(),
            severity=Severity.INFO,
        )

    def on_lifted_result(self, event: LiftedResult) -> Iterator[Report]:
        if event.converted in self._converted:
            return
        yield self.report(
            event,
            "float32 by conversion, what is returned here makes the layers behind it raise in half precision",
            reason=f"Layers refuse an input whose dtype is not that of their weights; {event.because}.",
            advice="Convert it back: .to(x.dtype) of what the function is given.",
            notes=[(event.converted, "the conversion to float32")],
            claims=(),
            severity=Severity.INFO,
            premises=[Premise.HALF_THERE],
        )

    def on_clash(self, event: Clash) -> Iterator[Report]:
        if event.refusal is None:
            return
        if event.from_caller and event.steady.made is not None:
            yield self.report(
                event,
                f"made without a dtype, this makes {event.op} raise in half precision: {event.refusal}",
                advice="Make it with dtype=x.dtype of the tensor it is used with, or convert it: mask.to(x.dtype).",
                at=event.steady.made,
                notes=[(event.node, f"here it meets, or has made float32, an operand of {event.op} beside a half one")],
            )
            return
        if event.converted is not None:
            self._converted.add(event.converted)
            yield self.report(
                event,
                f"float32 by conversion, this tensor makes {event.op} raise in half precision",
                reason="A float32 tensor makes a half one float32, and half weights refuse that.",
                advice="Convert it to the dtype of what it meets: x.to(y.dtype).",
                at=event.converted,
                notes=[(event.node, f"{event.op}: {event.refusal}")],
            )
            return
        yield self.report(
            event,
            f"{event.op} raises in half precision: {event.refusal}",
            advice="Convert one to the dtype of the other, x.to(y.dtype), or make it with dtype=y.dtype.",
            notes=operand_notes(event),
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if isinstance(event, InputsDiffer):
            like = f"{rewrite.operand(event.half.node)}.dtype"
            edits = (rewrite.replace(one.node, f"{rewrite.operand(one.node)}.to({like})") for one in event.wide)
            return Fix("Convert to one dtype", tuple(edits), Applicability.UNSAFE)
        if isinstance(event, Clash):
            return _fix_of_elements(event, rewrite)
        if not isinstance(event, Operation):
            return None
        half = half_of(event)
        if event.op in WRITES and len(event.operands) > 1:
            target, source = event.operands[0].node, event.operands[-1].node
            edit = rewrite.replace(source, f"{rewrite.operand(source)}.to({rewrite.operand(target)}.dtype)")
            return Fix("Convert to the dtype of the tensor", (edit,), Applicability.UNSAFE)
        if half is None:
            return None
        return Fix("Convert to float32", (rewrite.add_float(half.node),), Applicability.UNSAFE)


def _fix_of_elements(event: Clash, rewrite: Rewriter) -> Fix | None:
    """The conversion of what is assigned to elements of a tensor of another dtype."""
    assigned = event.node
    if event.op != "index_put" or event.from_caller or event.converted is not None:
        return None
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) > 1:
        return None
    target = assigned.targets[0].target
    if not isinstance(target, cst.Subscript):
        return None
    like = f"{rewrite.operand(target.value)}.dtype"
    edit = rewrite.replace(assigned.value, f"{rewrite.operand(assigned.value)}.to({like})")
    return Fix("Convert to the dtype of the tensor", (edit,), Applicability.UNSAFE)


def _half_weights(event: Operation) -> Operand | None:
    """The half weights of a layer with a wider input."""
    wide = any(operand.dtype in WIDE_DTYPES for operand in event.operands)
    return event.weights if wide else None


def _dtype_of(weights: Operand) -> str:
    """The expression for the dtype of a layer's weights, by its name where it has one."""
    path = dotted(weights.node) if weights.node is not None else None
    return f"next({path}.parameters()).dtype" if path else f"torch.{weights.dtype}"
