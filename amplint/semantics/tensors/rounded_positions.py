"""Positions cast to the dtype of another tensor before the multiplication by frequencies."""

from __future__ import annotations

from amplint.semantics.events import FREQUENCIES, PositionsConverted
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.tensors.kinship import follows_dtype
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import every, target_names, walk
from amplint.torchlib.catalogue import operations_with

Side = tuple[cst.BaseExpression, Value]
_VIEWS = (
    operations_with("reshapes")
    | operations_with("transposes")
    | operations_with("transfers")
    | {"contiguous", "expand"}
)


def report_product(machine: Machine, state: State, node: cst.CSTNode, sides: tuple[Side, Side]) -> None:
    """Emit `PositionsConverted` for a product of frequencies and a factor cast to the dtype of another tensor."""
    if PositionsConverted.kind not in machine.wanted:
        return
    for (place, value), (beside, other) in (sides, sides[::-1]):
        if not isinstance(other, Tensor) or FREQUENCIES not in other.traits or not _has_unknown_dtype(value):
            continue
        call = _conversion(machine, place)
        if call is not None and not _is_to_frequencies(call, beside):
            machine.emit(state, PositionsConverted, call, by=node, assumed=True)


def _has_unknown_dtype(value: Value) -> bool:
    """Whether this may be a tensor of unknown dtype."""
    return isinstance(value, Unknown) or (isinstance(value, Tensor) and value.dtypes is None)


def _conversion(machine: Machine, node: cst.BaseExpression) -> cst.Call | None:
    """The cast to the dtype of another tensor that an expression contains, through views and variables with a single
    value.
    """
    while not (isinstance(node, cst.Call) and follows_dtype(node)):
        if isinstance(node, cst.Name):
            given = _assigned(machine.calls[-1]).get(node.value, []) if machine.calls else []
            if len(given) != 1 or any(inner.value == node.value for inner in every(given[0], cst.Name)):
                return None
            (node,) = given
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _VIEWS:
            node = node.func.value
        elif isinstance(node, cst.Subscript):
            node = node.value
        else:
            return None
    return node


@cached_per_file
def _assigned(function: cst.CSTNode) -> dict[str, list[cst.BaseExpression]]:
    """Variable -> the values that a function assigns to it."""
    found: dict[str, list[cst.BaseExpression]] = {}
    for node in every(function, cst.Assign):
        for name in (name for target in node.targets for name in target_names(target.target)):
            found.setdefault(name, []).append(node.value)
    return found


def _is_to_frequencies(call: cst.Call, frequencies: cst.BaseExpression) -> bool:
    """Whether a cast is to the dtype of the frequencies."""
    paths = {dotted(inner) for inner in walk(frequencies) if isinstance(inner, (cst.Name, cst.Attribute))} - {"self"}
    given = (inner for argument in call.args for inner in walk(argument.value))
    return any(isinstance(inner, (cst.Name, cst.Attribute)) and dotted(inner) in paths for inner in given)
