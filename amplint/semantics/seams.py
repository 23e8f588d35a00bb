"""Where half tensors meet what does not take them: NumPy, and operations without kernels for half."""

from __future__ import annotations

from collections.abc import Set

import libcst as cst

from amplint.semantics.evidence import evidence
from amplint.semantics.machine import Machine
from amplint.semantics.masks import minds_dtypes
from amplint.semantics.operation_events import Because, Evidence, Operand, Operation
from amplint.semantics.origins import KEEPS_DTYPE
from amplint.semantics.parameters import root
from amplint.semantics.seam_events import HalfRefused, ToNumpy
from amplint.semantics.state import Model, State
from amplint.semantics.truth import symbol_of
from amplint.semantics.values import Tensor, Unknown, Value
from amplint.torchlib.half_support import FFT, NEVER, lacks
from amplint.torchlib.names import HALF_DTYPES

BFLOAT16 = frozenset({"bfloat16"})
_TAKEN = frozenset({"index", "to", "cpu", "softmax", "log_softmax", "exp", "log"})
_WRITES = frozenset({"index_copy", "index_copy_", "index_add_", "scatter_add_"})
"""Methods of tensors that refuse to write another dtype."""
_OF_OUTPUTS = frozenset({"logits", "last_hidden_state", "pooler_output", "hidden_states", "sample", "prediction"})


def words_of(kinds: Set[str]) -> frozenset[str]:
    """The calls that events of these kinds come from."""
    numpy = frozenset({"numpy"}) if ToNumpy.kind in kinds else frozenset()
    written = _WRITES if Operation.kind in kinds else frozenset()
    return numpy | written | (NEVER | FFT if HalfRefused.kind in kinds else frozenset())


def ran(machine: Machine, state: State, model: Value, result: Value) -> None:
    """Remember what `model` returned where it can have computed in bfloat16 and the dtype of the result is unknown."""
    region, entered_by = machine.region(state)
    if not isinstance(result, (Tensor, Unknown)) or getattr(result, "dtype", None) is not None:
        return
    cast = state.models.get(root(machine, symbol_of(machine, model)), Model()).bfloat16
    if cast is not None:
        why = Evidence(Because.PARAMETERS, BFLOAT16, "the weights of the model are bfloat16 from here on", cast)
        machine.half_outputs[result.symbol] = why
    elif region is not None and region.dtypes is not None and region.dtypes >= BFLOAT16:
        dtypes = region.dtypes & HALF_DTYPES
        text = f"the {' or '.join(sorted(dtypes))} autocast region of the model begins here"
        machine.half_outputs[result.symbol] = Evidence(Because.REGION, dtypes, text, entered_by)


def to_numpy(machine: Machine, state: State, node: cst.Call, owner: Value) -> None:
    """Tell of `owner.numpy()`, where that can be bfloat16."""
    if ToNumpy.kind not in machine.wanted or not isinstance(node.func, cst.Attribute):
        return
    why = _why(machine, state, owner)
    if why is not None and why.dtypes >= BFLOAT16:
        assumed = why.because is Because.ASSUMED
        machine.emit(state, ToNumpy, node, operand=Operand(node.func.value, owner, why), assumed=assumed)


def _why(machine: Machine, state: State, value: Value) -> Evidence | None:
    if isinstance(value, Tensor) and (value.dtype is not None or value.among is not None):
        return evidence(machine, state, value)
    if not isinstance(value, (Tensor, Unknown)) or minds_dtypes(machine):
        return None
    known = _of_output(machine, value.symbol)
    if known is None and machine.assumes:
        return Evidence(Because.ASSUMED, HALF_DTYPES, "nothing here tells its dtype, which may be bfloat16", None)
    return known


def _of_output(machine: Machine, symbol: int) -> Evidence | None:
    """Why what a model returned can be bfloat16, where `symbol` is a view or a copy of that in the same dtype."""
    seen: set[int] = set()
    while symbol not in machine.half_outputs:
        key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
        seen.add(symbol)
        method = str(key[1]).removeprefix("of ") if key[0] == "call" and len(key) > 1 else ""
        if method.isdigit() and machine.symbols.key(int(method))[0] == "attribute":
            name, parts = machine.symbols.key(int(method))[1], machine.symbols.parts(int(method))
            follows = name in KEEPS_DTYPE
        else:
            follows = key[0] in _TAKEN or key[0] in KEEPS_DTYPE or (key[0] == "attribute" and key[1] in _OF_OUTPUTS)
        if not follows or not parts or parts[0] in seen:
            return None
        symbol = parts[0]
    return machine.half_outputs[symbol]


def runs(machine: Machine, state: State, node: cst.Call, name: str, place: cst.BaseExpression, value: Value) -> None:
    """Tell of the operation with this qualified name, or of the method, where `value` is half and it refuses that."""
    refused = lacks(name)
    region, _ = machine.region(state)
    if not refused or HalfRefused.kind not in machine.wanted or not isinstance(value, (Tensor, Unknown)):
        return
    if region is not None and "cuda" not in (region.devices or ()):
        return  # the CPU's autocast runs these in float32
    if not isinstance(value, Tensor) or (value.dtype is None and value.among is None):
        machine.refusing[node] = Operand(place, value)
        return
    why = evidence(machine, state, value)
    if why is not None and why.dtypes <= refused:
        assumed = why.because is Because.ASSUMED
        operand = Operand(place, value, why)
        machine.emit(state, HalfRefused, node, op=name.rpartition(".")[2], operand=operand, assumed=assumed)


def converted_late(machine: Machine, state: State, node: cst.Call, dtype: str | None) -> None:
    """Tell of `op(x).to(torch.float32)` where `op` refuses half: the conversion matters only where `x` is half."""
    before = node.func.value if isinstance(node.func, cst.Attribute) else None
    if dtype == "float32" and isinstance(before, cst.Call) and (operand := machine.refusing.get(before)) is not None:
        if minds_dtypes(machine):
            return
        why = Evidence(Because.ANNOUNCED, HALF_DTYPES, "the result is converted to float32 only here", node)
        name = before.func.attr.value if isinstance(before.func, cst.Attribute) else ""
        machine.emit(state, HalfRefused, before, op=name, operand=Operand(operand.node, operand.value, why), late=node)
