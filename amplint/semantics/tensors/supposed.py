"""Names that a function uses as only a tensor can be used, for rules that assume half precision."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Guessed
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.provenance import ARITHMETIC, dtype_root
from amplint.semantics.tensors.tensors import Tensors, is_number, runs_layers, tensor, used_as_tensor
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Ref, Unknown, Value
from amplint.semantics.words import EPSILON, MASK, TORCH_MODULES, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import every, walk
from amplint.torchlib.operations import KNOWN
from amplint.torchlib.policy import FLOAT32, FOLLOWS_INPUT, LOWER, words

_OPERATIONS = KNOWN | FOLLOWS_INPUT | FLOAT32 | LOWER
_ALONG = ("dim", "keepdim")
_REDUCTIONS = words("sum mean amax amin prod std var norm")
_CURVES = words("exp expm1 log log10 log1p log2 reciprocal rsqrt sigmoid softplus sqrt tanh")
"""Methods without arguments that arrays and numbers do not have."""
_ONLY_TENSORS = words("size dim requires_grad_ detach contiguous unsqueeze permute expand_as type_as view softmax")


def operand(machine: Machine, state: State, node: cst.BaseExpression, value: Value) -> Value:
    """`value` of an operand, as a tensor where it was cast, or, if dtypes are assumed, where its name surely is one.

    A name that is a tensor in one place may be None in another, so only operands are taken for tensors. Within a region
    the dtype is known without assuming.
    """
    value = used_as_tensor(machine, value)
    if not machine.assumes or not isinstance(value, Unknown) or is_number(machine, value):
        return value
    if innermost(machine, state)[0] is not None:
        return value
    function = next((call for call in reversed(machine.calls) if isinstance(call, cst.FunctionDef)), None)
    if function is None:
        return value
    if is_backward(function) and _is_of_gradients(machine, value):
        return tensor(machine, value)
    if isinstance(node, cst.Call):
        return tensor(machine, value) if _reduces_input(function, node) else value
    if not isinstance(node, cst.Name):
        return value
    known = _tensors(function).get(node.value)
    if known is None and not MASK.search(node.value):
        return value
    guesses = MASK.guesses(node.value) if known is None else known
    kept = tuple(one for one in guesses if not _is_torch(machine, state, one.name))
    named = machine[Tensors].named
    named[value.symbol] = min(named.get(value.symbol, kept), kept, key=len)
    return tensor(machine, value)


def is_backward(function: cst.CSTNode) -> bool:
    """Whether this is the backward pass of a custom autograd function, which is given `ctx` and gradients."""
    if not isinstance(function, cst.FunctionDef) or function.name.value != "backward":
        return False
    return bool(function.params.params) and function.params.params[0].name.value != "self"


def _is_of_gradients(machine: Machine, value: Unknown) -> bool:
    """Whether saved tensors or gradients went into a value by arithmetic and operations that keep the dtype."""
    symbols = machine.symbols

    def operands(one: int) -> list[int]:
        parts = symbols.parts(one) if symbols.key(one)[0] in ARITHMETIC else ()
        return [dtype_root(machine, part) for part in parts]

    reached = [symbols.key(one) for one in symbols.closure(dtype_root(machine, value.symbol), operands)]
    return any(key[:2] == ("attribute", "saved_tensors") or key[0] == "parameter" for key in reached)


def _reduces_input(function: cst.FunctionDef, node: cst.Call) -> bool:
    """Whether a call reduces an argument of a layer's method along a dimension: layers take tensors."""
    if not isinstance(node.func, cst.Attribute) or node.func.attr.value not in _REDUCTIONS or not node.args:
        return False
    owner = node.func.value
    given = {param.name.value for param in function.params.params[1:]}
    return runs_layers(function) and isinstance(owner, cst.Name) and owner.value in given


def _is_torch(machine: Machine, state: State, name: str) -> bool:
    """Whether `name` is imported from PyTorch."""
    value = machine.lookup(state, name.partition(".")[0])
    return isinstance(value, Ref) and value.name.partition(".")[0] == "torch"


@cached_per_file
def certain_tensors(function: cst.FunctionDef) -> frozenset[str]:
    """The names that are tensors without a guess, and those whose elements are passed to PyTorch."""
    known = {name for name, guesses in _tensors(function).items() if not guesses}
    for call in every(function, cst.Call):
        owner, _, op = (dotted(call.func) or "").rpartition(".")
        if owner == "torch" and op in _OPERATIONS:
            parts = (argument.value.value for argument in call.args if isinstance(argument.value, cst.Subscript))
            known |= {part.value for part in parts if isinstance(part, cst.Name)}
    return frozenset(known)


@cached_per_file
def _tensors(function: cst.FunctionDef) -> dict[str, tuple[Guessed, ...]]:
    """The names that are tensors, each with the guesses that this rests on."""
    calls = (node for node in walk(function.body) if isinstance(node, cst.Call))
    found = dict.fromkeys(annotated_tensors(function), tuple[Guessed, ...]())
    for call in calls:
        for name, guesses in _tensor_operand_names(call):
            found[name] = min(found.get(name, guesses), guesses, key=len)
    return found


def annotated_tensors(function: cst.FunctionDef) -> list[str]:
    """The parameters annotated as tensors."""
    parameters = (*function.params.params, *function.params.kwonly_params)
    return [p.name.value for p in parameters if p.annotation and _is_tensor(p.annotation.annotation)]


def _is_tensor(annotation: cst.BaseExpression) -> bool:
    names = [node.value for node in walk(annotation) if isinstance(node, cst.Name)]
    return "Tensor" in names and not {"List", "list", "Dict", "dict", "Tuple", "tuple", "Sequence"} & set(names)


def _tensor_operand_names(call: cst.Call) -> Iterator[tuple[str, tuple[Guessed, ...]]]:
    """The names of the tensor operands of a call, first argument or receiver, each with the guesses it rests on."""
    if not isinstance(call.func, cst.Attribute):
        return
    owner, name = call.func.value, call.func.attr.value
    if TORCH_MODULES.search(dotted(owner) or ""):
        first = call.args[0].value if call.args and call.args[0].keyword is None else None
        torch = TORCH_MODULES.guesses(dotted(owner) or "")
        for part in _ratio(first) if first is not None and name in _OPERATIONS else ():
            if (found := _summand(part)) is not None:
                yield found[0], (*torch, *found[1])
        return
    along = any(argument.keyword is not None and argument.keyword.value in _ALONG for argument in call.args)
    plain = name in _CURVES and not call.args
    if (name in _ONLY_TENSORS or plain or (along and name in _OPERATIONS)) and (found := _summand(owner)) is not None:
        yield found


def _ratio(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Numerator and denominator of a ratio, both tensors unless one is a count; else `node`."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Divide):
        yield node
        return
    for side in (node.left, node.right):
        if not any(isinstance(inner, cst.Name) and WHOLE_NUMBERS.search(inner.value) for inner in walk(side)):
            yield side


def _summand(node: cst.BaseExpression) -> tuple[str, tuple[Guessed, ...]] | None:
    """The one name in `x`, `x + 1e-8` and `1 - x + eps`, with the guesses by which others are numbers."""
    if isinstance(node, cst.BinaryOperation):
        numbers = [side for side in (node.left, node.right) if isinstance(side, (cst.Integer, cst.Float))]
        named = [side for side in (node.left, node.right) if EPSILON.search(dotted(side) or "")]
        sides = [side for side in (node.left, node.right) if side not in numbers and side not in named]
        found = _summand(sides[0]) if len(sides) == 1 else None
        guesses = [guessed for side in named for guessed in EPSILON.guesses(dotted(side) or "")]
        return (found[0], (*found[1], *guesses)) if found is not None else None
    return (node.value, ()) if isinstance(node, cst.Name) else None
