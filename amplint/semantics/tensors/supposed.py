"""Names that a function uses as only a tensor can be used, for rules that ask what half precision would do to them."""

from __future__ import annotations

import functools

from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.tensors import is_number, tensor, used_as_tensor
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Unknown, Value
from amplint.semantics.words import EPSILON, MASK, TORCH_MODULES
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.operations import KNOWN
from amplint.torchlib.policy import FLOAT32, FOLLOWS_INPUT, LOWER, words

_OPERATIONS = KNOWN | FOLLOWS_INPUT | FLOAT32 | LOWER
_ALONG = ("dim", "keepdim")
_ONLY_TENSORS = words("size dim requires_grad_ detach contiguous unsqueeze permute expand_as type_as view softmax")


def operand(machine: Machine, state: State, node: cst.BaseExpression, value: Value) -> Value:
    """`value` of an operand: a tensor where it is converted, or where its name surely stands for one, if that is asked.

    What stands for a tensor in one place may be None in another, so that only operands are taken for tensors. In a
    region there is no need to ask.
    """
    value = used_as_tensor(machine, value)
    if not machine.assumes or not isinstance(value, Unknown) or is_number(machine, value):
        return value
    if innermost(machine, state)[0] is not None:
        return value
    function = next((call for call in reversed(machine.calls) if isinstance(call, cst.FunctionDef)), None)
    if function is None or not isinstance(node, cst.Name):
        return value
    if node.value not in _tensors(function) and not MASK.search(node.value):
        return value
    return tensor(machine, value)


@functools.lru_cache(maxsize=512)
def _tensors(function: cst.FunctionDef) -> frozenset[str]:
    parameters = (*function.params.params, *function.params.kwonly_params)
    typed = {p.name.value for p in parameters if p.annotation and _is_tensor(p.annotation.annotation)}
    calls = (node for node in walk(function.body) if isinstance(node, cst.Call))
    return frozenset(typed | {name for call in calls if (name := _worked_on(call)) is not None})


def _is_tensor(annotation: cst.BaseExpression) -> bool:
    names = [node.value for node in walk(annotation) if isinstance(node, cst.Name)]
    return "Tensor" in names and not {"List", "list", "Dict", "dict", "Tuple", "tuple", "Sequence"} & set(names)


def _worked_on(call: cst.Call) -> str | None:
    """The name of the tensor that a call works on: the first argument of a function, or the owner of a method."""
    if not isinstance(call.func, cst.Attribute):
        return None
    owner, name = call.func.value, call.func.attr.value
    if TORCH_MODULES.search(dotted(owner) or ""):
        first = call.args[0].value if call.args and call.args[0].keyword is None else None
        return _summand(first) if first is not None and name in _OPERATIONS else None
    along = any(argument.keyword is not None and argument.keyword.value in _ALONG for argument in call.args)
    return _summand(owner) if name in _ONLY_TENSORS or (along and name in _OPERATIONS) else None


def _summand(node: cst.BaseExpression) -> str | None:
    """The one name in `x`, `x + 1e-8` and `1 - x + eps`."""
    if isinstance(node, cst.BinaryOperation):
        sides = [side for side in (node.left, node.right) if not _is_small(side)]
        return _summand(sides[0]) if len(sides) == 1 else None
    return node.value if isinstance(node, cst.Name) else None


def _is_small(node: cst.BaseExpression) -> bool:
    """Whether an operand is a number, or one by its name."""
    return isinstance(node, (cst.Integer, cst.Float)) or EPSILON.search(dotted(node) or "") is not None
