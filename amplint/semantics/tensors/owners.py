"""The tensors whose size or device a factory call takes without their dtype, and what is computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from amplint.semantics.events import Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.tensors.provenance import creating_call
from amplint.semantics.tensors.tensors import COMPARISONS, Tensors, is_data
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.symbols import Callee
from amplint.semantics.values.values import Items, Method, Tensor, Unknown, Value
from amplint.semantics.words import INDICES, MASK, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import every
from amplint.torchlib.names import LEGACY_TENSORS
from amplint.torchlib.policy import BOOLEAN, INTEGER, words

_PLACED = words("device shape size get_device new")
_SIZES = words("in_features out_features in_channels out_channels")
"""Attributes of layers that say how large their weights are."""
_OF_LAYERS = _SIZES | words(
    "weight bias device dtype training kernel_size stride padding dilation groups padding_mode output_padding to "
    "forward parameters named_parameters requires_grad_ register_buffer state_dict load_state_dict eval train __class__"
)
"""Attributes that layers have."""
_ABOUT = _PLACED | words("dtype dim ndim numel itemsize requires_grad")
"""Attributes and methods that say something about a tensor, and hold none of its elements."""
_PASSES = words("forward encode decode")
"""Methods of models that run their layers."""
_ENDS = COMPARISONS | words("cast converted fresh")
"""Operations whose result has a dtype of its own."""
_OF_TENSORS = ("torch.", "einops.")
_OTHER_DTYPES = BOOLEAN | INTEGER | _ABOUT


def take(machine: Machine, made: cst.Call, values: Iterable[Value]) -> None:
    """Record the tensors whose size or device is read for the tensor that `made` creates."""
    given = tuple(values)
    found = {owner for value in given for owner in _owners(machine, value)}
    if found:
        machine[Tensors].owners.setdefault(made, set()).update(found)
    layer = next((name for value in given for name in layers_sized(machine, value)), None)
    if layer is not None:
        machine[Tensors].beside[made] = layer


def layers_sized(machine: Machine, value: Value) -> Iterator[str]:
    """The parameters of the running function that are layers, of which the sizes are read."""
    if isinstance(value, Items):
        for item in value.values:
            yield from layers_sized(machine, item)
    elif isinstance(value, Unknown):
        for one in machine.symbols.derivation(value.symbol):
            key = machine.symbols.key(one)
            if key[0] == "attribute" and (key[1] in _SIZES or _is_shape_of_weight(machine, one)):
                yield from _parameter(machine, machine.symbols.parts(one)[0])


def _is_shape_of_weight(machine: Machine, symbol: int) -> bool:
    key, (owner,) = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    return key[1] == "shape" and machine.symbols.key(owner)[:2] == ("attribute", "weight")


def _parameter(machine: Machine, symbol: int) -> Iterator[str]:
    """The name of the parameter of the running function that this is, or whose weight it is."""
    key = machine.symbols.key(symbol)
    if key[:2] == ("attribute", "weight"):
        key = machine.symbols.key(machine.symbols.parts(symbol)[0])
    if key[0] == "parameter" and not any(_is_configuration(one, str(key[2])) for one in machine.calls[-1:]):
        yield str(key[2])


@cached_per_file
def _is_configuration(function: cst.CSTNode, name: str) -> bool:
    """Whether a parameter, or the attribute that it is kept in, is read for more than a layer has to say."""
    kept = {
        dotted(one.target)
        for node in every(function, cst.Assign)
        if isinstance(node.value, cst.Name) and node.value.value == name
        for one in node.targets
    }
    read = {node.attr.value for node in every(function, cst.Attribute) if dotted(node.value) in {name, *kept}}
    return len(read - _OF_LAYERS) > 1


def moves(machine: Machine, value: Tensor, arguments: Arguments) -> None:
    """Record the tensors to whose device `value` is moved, where it was created here."""
    made = creating_call(machine, value.symbol) if machine.assumes else None
    if made is not None:
        take(machine, made, arguments.values)


def _owners(machine: Machine, value: Value) -> Iterator[int]:
    if isinstance(value, Items):
        for one in value.values:
            yield from _owners(machine, one)
    elif isinstance(value, Method):
        if value.name in _PLACED:
            yield symbol_of(machine, value.owner)
    elif isinstance(value, Unknown):
        for owner in map(partial(_placed, machine), machine.symbols.closure(value.symbol, partial(_around, machine))):
            if owner is not None and machine.symbols.key(owner)[0] != "self":
                yield owner


def _around(machine: Machine, symbol: int) -> tuple[int, ...]:
    """The symbols from which `symbol` is computed, none if it is itself the size or the device of a tensor."""
    return machine.symbols.parts(symbol) if _placed(machine, symbol) is None else ()


def _placed(machine: Machine, symbol: int) -> int | None:
    """The tensor whose size or device this is."""
    key = machine.symbols.key(symbol)
    if key[0] in ("attribute", "number") and key[1] in _PLACED:
        return machine.symbols.parts(symbol)[0]
    if key[0] == "value" and isinstance(key[1], Method) and key[1].name in _PLACED:
        return symbol_of(machine, key[1].owner)
    return None


def follows(machine: Machine, made: cst.Call) -> bool:
    """Whether a tensor is made with the size or on the device of another one, but not in its dtype.

    `where` on two numbers has those of its condition.
    """
    last = last_name(made.func)
    data = len(made.args) == 1 and isinstance(made.args[0].value, (cst.Name, cst.Attribute, cst.Call))
    if last == "where" or (last in LEGACY_TENSORS and not data):
        return True
    return made in machine[Tensors].owners


def is_of_owner(machine: Machine, made: cst.Call, operand: Operand) -> bool:
    """Whether an operand is computed, in the dtype of a tensor whose size or device `made` takes, from that tensor."""
    value, owners = operand.value, machine[Tensors].owners.get(made)
    if owners is None or not isinstance(value, (Tensor, Unknown)):
        return False
    if (isinstance(value, Tensor) and (value.dtypes is not None or value.rank == 0)) or is_data(machine, value.symbol):
        return False
    reached = machine.symbols.closure(value.symbol, partial(_operands, machine))
    return any(one in owners and _holds_fractions(machine, one) for one in reached)


def is_placed_by(machine: Machine, made: cst.Call, callee: Value) -> bool:
    """Whether a tensor is made on the device of a model, or of its parameters, that is called, or one of its passes."""
    owners = machine[Tensors].owners.get(made, set())
    model = symbol_of(machine, callee)
    kind, *names = machine.symbols.key(model)
    if kind == "attribute" and names[0] in _PASSES:
        (model,) = machine.symbols.parts(model)
    return any(model in machine.symbols.derivation(owner) for owner in owners)


def _operands(machine: Machine, symbol: int) -> tuple[int, ...]:
    """The symbols from which `symbol` can have its dtype."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    name = str(key[0]).partition(" ")[0].removesuffix("_")
    if name in _ENDS or name in _OTHER_DTYPES or (name == "attribute" and key[1] in _ABOUT):
        return ()
    if name == "call":
        method = machine.symbols.method(symbol)
        if method is not None:
            return () if method[0] in _OTHER_DTYPES else parts
        return parts if isinstance(key[1], Callee) or str(key[1]).startswith(_OF_TENSORS) else ()
    return parts


def _holds_fractions(machine: Machine, symbol: int) -> bool:
    """Whether the name of a parameter does not say that it holds integers or truth values."""
    key = machine.symbols.key(symbol)
    return key[0] != "parameter" or not any(guess.search(str(key[2])) for guess in (WHOLE_NUMBERS, INDICES, MASK))
