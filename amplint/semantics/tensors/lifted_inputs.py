"""Inputs that a layer converts to float32 for an operation whose weights it leaves in the dtype of the model.

Under autocast the weights are float32. In a model that was converted to half they are not, and the operation refuses.
"""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.events import Clash, Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors import subregions
from amplint.semantics.tensors.clash_pairs import is_kept
from amplint.semantics.tensors.kinship import follows_dtype
from amplint.semantics.tensors.masks import branches_on_dtypes
from amplint.semantics.tensors.provenance import conversion
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Method, Tensor, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import every
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.policy import words

_ALIKE = operations_with("matrices") | operations_with("convolves") | words("layer_norm group_norm")
_WEIGHTS = words("weight bias")
_CASTS = words("to type type_as")
_WEIGHS = "its input is converted to float32, its weights have the dtype of the model"


def ran(machine: Machine, state: State, node: cst.CSTNode, op: str, operands: Sequence[Operand]) -> None:
    """Report an operation on what was converted to float32 and on weights, in a function that converts back."""
    if op not in _ALIKE or len(operands) < 2 or Clash.kind not in machine.wanted:
        return
    if innermost(machine, state)[0] is not None or subregions.is_switched_off(state) or branches_on_dtypes(machine):
        return
    wide = next((one for one in operands if _is_lifted(machine, one.value)), None)
    weights = next((one for one in operands if _is_weight(machine, one)), None)
    function = machine.calls[-1] if machine.calls else None
    if wide is None or weights is None or not isinstance(function, cst.FunctionDef) or not _converts_back(function):
        return
    machine.emit(state, Clash, node, op=op, steady=wide, half=weights, refusal=_WEIGHS, assumed=True)


def _is_lifted(machine: Machine, value: Value) -> bool:
    """Whether a tensor is float32 by an explicit conversion."""
    if not isinstance(value, Tensor) or value.dtype != "float32" or value.supposed:
        return False
    return conversion(machine, value.symbol) == "float32"


def _is_weight(machine: Machine, operand: Operand) -> bool:
    """Whether this is a parameter or buffer of the object whose method runs, or what only a base class names so.

    The value of a layer's weight does not tell whether it was converted, the expression does.
    """
    value = operand.value
    if isinstance(value, Tensor) and value.dtype is not None:
        return False
    if is_kept(machine, value):
        return not isinstance(value, Method) or (dotted(operand.node) or "").endswith(f".{value.name}")
    key = machine.symbols.key(value.symbol) if isinstance(value, Unknown) else ()
    if key[:1] != ("attribute",) or key[1] not in _WEIGHTS:
        return False
    return machine.symbols.key(machine.symbols.parts(value.symbol)[0])[0] == "self"  # type: ignore[union-attr]


@cached_per_file
def _converts_back(function: cst.FunctionDef) -> bool:
    """Whether a function converts a tensor of its own to the dtype of another."""
    kept = {
        name
        for node in every(function, cst.Assign)
        if isinstance(node.value, cst.Attribute) and node.value.attr.value == "dtype"
        for target in node.targets
        if (name := dotted(target.target)) is not None
    }
    return any(_follows(call, kept) for call in every(function, cst.Call))


def _follows(call: cst.Call, kept: set[str]) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _CASTS:
        return False
    if (dotted(call.func.value) or "").startswith("self."):
        return False
    return follows_dtype(call) or any(dotted(one.value) in kept for one in call.args)
