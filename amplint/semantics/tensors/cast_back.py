"""Float32 computations that autocast undoes: operands cast to float32 for a matrix product, and products of angles.

A library function does not see the autocast region of its caller. Operands that it casts to float32 for a product,
and angles of positions, are half in such a region unless the function disables autocast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amplint.findings import Guessed
from amplint.regex import regex
from amplint.semantics.events import FREQUENCIES, INTEGERS, AnglesCast, CastBack
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.conversions import asks_float32
from amplint.semantics.tensors.devices import common, reaches
from amplint.semantics.tensors.provenance import conversion, is_parameter_or_buffer, last_cast
from amplint.semantics.tensors.tensors import Tensors, converts_to, follows
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Autocast, Tensor
from amplint.semantics.words import FREQUENCY, OUTSIDE_REGIONS, POSITION
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import FOLLOWS_INPUT, LOWER, words

PRODUCTS = operations_with("matrices") - {"linear"}
Places = Sequence[tuple[cst.BaseExpression, Tensor]]
_TRANSPOSED = words("T mT")
_PRODUCT = regex(r"\b(?:einsum|matmul|bmm|baddbmm|mm|linear|Linear)\(|[^\s(,] @ ")
_PRECISE = regex(r"\.float\(\)|float32|torch\.float\b|arange|freq")
_CALLS = words("float type_as einsum matmul bmm baddbmm mm register_buffer cos sin")


def computed(machine: Machine, state: State, node: cst.CSTNode, op: str, tensors: Places) -> None:
    """Handle a product of `tensors` under autocast, or where no region is visible."""
    if isinstance(node, cst.Call) and any(one.keyword is not None and one.keyword.value == "out" for one in node.args):
        return
    region, _ = innermost(machine, state)
    if region is not None:
        _emit_cast_back(machine, state, node, op, region, tensors)
    elif machine.assumes and op in LOWER and len(tensors) > 1 and _may_be_inside(machine, state):
        guesses = _angles(tensors)
        if guesses is not None:
            machine.emit(state, AnglesCast, node, op=op, assumed=True, guesses=guesses)
        elif _converts_weights(machine, tensors):
            machine.emit(state, CastBack, node, op=op, assumed=True)
        elif op in PRODUCTS:
            _record_product(machine, node, op, tensors)


def layer_called(
    machine: Machine, state: State, node: cst.Call, op: str, operand: Tensor, weights: Tensor, by: cst.CSTNode | None
) -> None:
    """Emit `CastBack` for a layer whose input and weights are both converted to float32, where no region is visible.

    The weights are converted `by` this call, on one of the paths at least.
    """
    if not machine.assumes or op != "linear" or weights.dtype not in ("float32", None) or not asks_float32(by):
        return
    lifted = operand.dtype in ("float32", None) and _is_lifted(machine, operand.symbol)
    if lifted and innermost(machine, state)[0] is None and _may_be_inside(machine, state):
        machine.emit(state, CastBack, node, op=op, assumed=True)


def _is_lifted(machine: Machine, symbol: int) -> bool:
    """Whether a tensor is float32 by a conversion, on one of the paths at least."""
    return any(conversion(machine, one) == "float32" for one in machine.symbols.alternatives(symbol))


def _converts_weights(machine: Machine, tensors: Places) -> bool:
    """Whether all operands of a product are converted to float32, among them a parameter of the running object."""
    if not all(value.dtype == "float32" and conversion(machine, value.symbol) == "float32" for _, value in tensors):
        return False
    casts = [last_cast(machine, value.symbol) for _, value in tensors]
    sources = [machine.symbols.parts(cast)[0] for cast in casts if cast is not None]
    return any(is_parameter_or_buffer(machine, source) for source in sources)


def _emit_cast_back(
    machine: Machine, state: State, node: cst.CSTNode, op: str, region: Autocast, tensors: Places
) -> None:
    """Emit `CastBack` for a product under autocast whose operands were all cast to float32, some of them from half."""
    if op not in PRODUCTS or not tensors or not reaches(region.devices, common(value for _, value in tensors)):
        return
    before = [_converted_from(machine, value) for _, value in tensors]
    if None not in before and any(dtype in HALF_DTYPES for dtype in before):
        machine.emit(state, CastBack, node, op=op)


def _may_be_inside(machine: Machine, state: State) -> bool:
    """Whether the running functions may be called within an autocast region of an unseen caller."""
    if any(isinstance(region.context, Autocast) for region in state.regions):
        return False
    running = [function for function in machine.calls if isinstance(function, cst.FunctionDef)]
    return bool(running) and not any(
        OUTSIDE_REGIONS.search(function.name.value) or switches_off(function) for function in running
    )


def switches_off(function: cst.FunctionDef) -> bool:
    """Whether a decorator casts the arguments of the function and disables autocast (`cast_inputs`)."""
    given = (argument for decorator in function.decorators for argument in every(decorator, cst.Arg))
    return any(argument.keyword is not None and argument.keyword.value == "cast_inputs" for argument in given)


def _angles(tensors: Places) -> tuple[Guessed, ...] | None:
    """The guesses by which this is a product of positions and frequencies; None if it is none."""
    if any(value.dtype == "float64" for _, value in tensors):
        return None
    if any(FREQUENCIES in value.traits for _, value in tensors):
        return ()
    for place, value in tensors:
        others = [(path, other) for path, other in tensors if other is not value]
        name = name_within(place)
        if FREQUENCY.search(name):
            for path, other in others:
                if INTEGERS in other.traits:
                    return FREQUENCY.guesses(name)
                if POSITION.search(name_within(path)):
                    return (*FREQUENCY.guesses(name), *POSITION.guesses(name_within(path)))
    return None


def name_within(place: cst.BaseExpression) -> str:
    """The last name of a variable or attribute path, seen through indices, transposition and methods."""
    while True:
        if isinstance(place, cst.Subscript) or (isinstance(place, cst.Attribute) and place.attr.value in _TRANSPOSED):
            place = place.value
        elif isinstance(place, cst.Call) and isinstance(place.func, cst.Attribute):
            place = place.func.value
        else:
            return (dotted(place) or "").rpartition(".")[2]


def _record_product(machine: Machine, node: cst.CSTNode, op: str, tensors: Places) -> None:
    """Remember a product whose operands are all float32, at least one of them by a cast."""
    values = [value for _, value in tensors]
    lifted = any(conversion(machine, value.symbol) == "float32" for value in values)
    if lifted and all(value.dtype == "float32" for value in values):
        machine[CastBacks].products[values[0].symbol] = (node, op)


def _converted_from(machine: Machine, value: Tensor) -> str | None:
    """The dtype of `value` before it was cast to float32, "" if that is unknown, None if it was not cast."""
    root_of = root(machine, value.symbol)
    return machine[Tensors].cast_from.get(root_of) if value.dtype == "float32" else None


def root(machine: Machine, symbol: int) -> int:
    """The symbol whose dtype `symbol` has, found by following operations that keep the dtype."""
    while True:
        key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
        if key[0] in FOLLOWS_INPUT or key[0] in ("index", "to") or key[:2] in (("attribute", "T"), ("attribute", "mT")):
            symbol = parts[0]
            continue
        callee = machine.symbols.callee(symbol)
        method = machine.symbols.key(callee) if callee is not None else ()
        if callee is None or method[0] != "attribute" or str(method[1]) not in FOLLOWS_INPUT:
            return symbol
        symbol = machine.symbols.parts(callee)[0]


def _converted_back(machine: Machine, call: Call) -> bool:
    """Whether a method casts to half, or to the dtype of another tensor."""
    if call.name == "type_as":
        return True
    changes, dtype = converts_to(machine, call.name, call.arguments)
    given = any(follows(machine, argument) for argument in call.arguments.given)
    return changes and (dtype in HALF_DTYPES or (dtype is None and given))


def _source_products(machine: Machine, symbol: int) -> Iterable[tuple[cst.CSTNode, str]]:
    """The remembered products from which `symbol` was computed."""
    known = machine[CastBacks].products
    for one in machine.symbols.derivation(symbol):
        parts, kind = machine.symbols.parts(one), machine.symbols.key(one)[0]
        if parts and parts[0] in known and kind in (known[parts[0]][1], "MatrixMultiply"):
            yield known[parts[0]]


class CastBacks(Tracker):
    """Tracks products computed in float32: `products` maps the symbol of the first operand to node and operation."""

    methods = frozenset({"to", "type", "type_as", "half", "bfloat16"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.products: dict[int, tuple[cst.CSTNode, str]] = {}

    def is_needed(self) -> bool:
        """Whether dtypes are assumed and a selected rule handles one of the events."""
        return self.machine.assumes and not self.machine.wanted.isdisjoint({CastBack.kind, AnglesCast.kind})

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Casts and products, in a file that casts to float32 or makes angles, and multiplies."""
        return Words(calls=_CALLS) if any(map(_computes_precisely, chunks)) else Words()

    def method(self, state: State, call: Call) -> None:
        """Emit `CastBack` where the result of a remembered product is cast back."""
        if self.products and isinstance(call.owner, Tensor) and _converted_back(self.machine, call):
            for node, op in _source_products(self.machine, call.owner.symbol):
                self.machine.emit(state, CastBack, node, op=op, assumed=True)


@cached_per_chunk
def _computes_precisely(chunk: Chunk) -> bool:
    """Whether the text casts to float32 or makes angles, and has a matrix product."""
    return _PRODUCT.search(chunk.text) is not None and _PRECISE.search(chunk.text) is not None
