"""Traits of a tensor's values that matter in half precision: squares, integers, coordinates, angles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import add, floordiv, mul, sub, truediv

from amplint.findings import Guessed
from amplint.regex import regex
from amplint.semantics.events import (
    ANGLES,
    COORDINATES,
    FLAGS,
    FREQUENCIES,
    INTEGERS,
    INVERTED,
    LENGTH_PRODUCTS,
    LENGTHS,
    LIFTED_SQUARES,
    ONE,
    PAST,
    SCALED_LATE,
    SCORES,
    SIDES,
    SQUARES,
    USUALLY_FEW,
    ZEROS,
)
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.demos import is_within_test
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.tensors.datasets import runs_in_layer
from amplint.semantics.tensors.masks import running
from amplint.semantics.tensors.tensors import Tensors, is_number, is_size
from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.values import Const, Items, Tensor, Unknown, Value, number
from amplint.semantics.words import CHANNELS, IMAGE_SIDE, SCALE_FACTOR
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import walk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.policy import words
from amplint.torchlib.promotion import INTEGRAL

FEW = 256
"""The largest number up to which bfloat16 holds all integers."""
MANY = 2048
"""The largest number up to which float16 holds all integers."""
_TIMESTEPS = 1000
"""The default number of training timesteps of a diffusers scheduler."""
_RESHAPES = frozenset[str]().union(
    *map(operations_with, ("reshapes", "reorders", "selects", "repeats", "copies", "transfers", "joins"))
)
_KEPT = {
    SQUARES,
    LIFTED_SQUARES,
    INTEGERS,
    COORDINATES,
    SIDES,
    FREQUENCIES,
    ANGLES,
    ONE,
    ZEROS,
    FLAGS,
    INVERTED,
    *PAST.values(),
}
_JOINS = operations_with("joins")
_CONVERTS = regex(r"\.half\(|float16|HalfTensor|\b[fb][pf]16\b|torch_dtype")
_TURNING = words("outer einsum cos sin")
_PLACING = _TURNING | {"meshgrid"}
_SHAPES = words("unsqueeze view reshape")
"""Operations that give one tensor several shapes, a column and a row, whose product holds no squares."""
_POWERS = words("pow square")
_NORMS = words("norm vector_norm")
_MATRIX_PRODUCTS = words("matmul bmm mm")
_TRANSPOSES = operations_with("transposes")
_SHIFTS = words("add sub")
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "Add": add,
    "Subtract": sub,
    "Multiply": mul,
    "Divide": truediv,
    "FloorDivide": floordiv,
}
"""Operations on two numbers, by the kind of their symbol."""
_SHARES = frozenset({"Divide", "FloorDivide", "Multiply"})
_WITHIN_ONE = words("sigmoid hardsigmoid softmax tanh sin cos sign normalize cosine_similarity")
_SUMS_AND_PARTS = words("Add Subtract Multiply Minus abs index part mean")
_PRODUCTS = words("mul outer matmul mm bmm einsum einsum_elementwise")


def counted(machine: Machine, op: str, arguments: Arguments) -> frozenset[str]:
    """The traits of a new tensor of positions: a short range fits any dtype, and one with steps counts channels.

    In a file without half dtypes nothing shows that the tensor or parameter whose dtype they take is ever half, and
    values invented by a test are no positions.
    """
    if is_within_test(machine.calls):
        return frozenset()
    step = (
        number(arguments.value("step", 2) or Const(1))
        if op == "arange"
        else 1
        if op in ("linspace", "randint")
        else None
    )
    if step is None or abs(step) != 1:
        return frozenset()
    if op == "randint":
        bound = _integer_bound(arguments)
        whole = frozenset({INTEGERS, *([SIDES] if bound <= MANY else ()), *_past([bound])})
        return whole if bound > FEW else frozenset()
    named = [argument for argument in arguments.given if argument.keyword in (None, "start", "end")]
    bounds = [number(argument.value) for argument in (named[:2] if op == "linspace" else named)]
    short = all(bound is not None and abs(bound) <= FEW for bound in bounds)
    fractions = op == "linspace" and any(_is_fraction(machine, argument) for argument in named[:2])
    around = len(named) > 1 and _is_window(op, named[0].node.value, named[1].node.value)
    channels = any(_counts_channels(machine, argument) for argument in arguments.given)
    if short or fractions or around or channels:
        return frozenset()
    placed = any(isinstance(node, cst.Name) and node.value in _PLACING for node in running(machine))
    grid = placed and not any(isinstance(node, cst.Name) and node.value in _TURNING for node in running(machine))
    can_be_half = placed and any(map(_mentions_half, machine.program.main.chunks))
    usual = [_usual(machine, argument.value) for argument in named]
    return frozenset(
        {
            INTEGERS,
            *([USUALLY_FEW] if all(bound is not None and abs(bound) <= FEW for bound in usual) else ()),
            *([COORDINATES] if can_be_half else ()),
            *([SIDES] if grid or any(map(_is_side, named)) else ()),
            *_past(bounds),
        }
    )


def _usual(machine: Machine, value: Value | None) -> float | None:
    """A number, or the one that it is by the defaults of parameters."""
    known = number(value)
    return known if known is not None or not isinstance(value, Unknown) else _by_default(machine, value.symbol)


def _by_default(machine: Machine, symbol: int, depth: int = 4) -> float | None:
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "value":
        return number(key[1]) if isinstance(key[1], Const) else None
    compute = _ARITHMETIC.get(str(key[0]))
    if compute is None or len(parts) != 2 or not depth:
        return number(machine.defaults.get(symbol))
    left, right = (_by_default(machine, part, depth - 1) for part in parts)
    return compute(left, right) if left is not None and right is not None and abs(right) >= 1 else None


def _past(bounds: Iterable[float | None]) -> Iterator[str]:
    """The traits in `PAST` of whole numbers up to these bounds, as far as they are known."""
    largest = max((abs(bound) for bound in bounds if bound is not None), default=0)
    for dtype, limit in (("bfloat16", FEW), ("float16", MANY)):
        if largest > limit:
            yield PAST[dtype]


def _integer_bound(arguments: Arguments) -> float:
    """The bound of random integers, 0 if it is unknown."""
    second = arguments.get("high", 1)
    high = second if second is not None and not isinstance(second.value, Items) else arguments.get("high", 0)
    bound = number(high.value) if high is not None else None
    if bound is None and high is not None and _counts_timesteps(high.node.value):
        return _TIMESTEPS
    return bound or 0


def _counts_timesteps(bound: cst.BaseExpression) -> bool:
    """Whether a bound is the number of training timesteps of a diffusers scheduler."""
    return (dotted(bound) or "").rpartition(".")[2] == "num_train_timesteps"


@cached_per_chunk
def _mentions_half(chunk: Chunk) -> bool:
    return _CONVERTS.search(chunk.text) is not None


def _is_fraction(machine: Machine, bound: Argument) -> bool:
    """Whether a bound is computed by a division or with a fractional factor.

    Positions are integers, or half-integers.
    """
    if any(isinstance(node, cst.Divide) for node in walk(bound.node.value)):
        return True
    if not isinstance(bound.value, Unknown) or machine.symbols.key(bound.value.symbol)[0] != "Multiply":
        return False
    keys = map(machine.symbols.key, machine.symbols.parts(bound.value.symbol))
    factors = (number(key[1]) for key in keys if key[0] == "value" and isinstance(key[1], Const))
    return any(factor is not None and not float(factor).is_integer() for factor in factors)


def _is_window(op: str, start: cst.BaseExpression, end: cst.BaseExpression) -> bool:
    """Whether bounds include `-r` and `r`: these are offsets in a window around a position, which is small."""
    if not isinstance(start, cst.UnaryOperation) or not isinstance(start.operator, cst.Minus):
        return False
    radius = dotted(start.expression)
    if op == "arange" and isinstance(end, cst.BinaryOperation) and isinstance(end.operator, cst.Add):
        return radius is not None and dotted(end.left) == radius
    return op == "linspace" and radius is not None and dotted(end) == radius


def _is_side(bound: Argument) -> bool:
    """Whether a bound is the height or width of an image, or 1 more."""
    names = [node.value for node in walk(bound.node.value) if isinstance(node, cst.Name)]
    return len(names) == 1 and IMAGE_SIDE.search(names[0]) is not None


def _counts_channels(machine: Machine, bound: Argument) -> bool:
    """Whether a bound is named after channels, of which there are few, or a share of them, as in `half = dim // 2`.

    The index of a shape does not count.
    """
    nodes = list(walk(bound.node.value))
    named = any(isinstance(node, cst.Name) and CHANNELS.search(node.value) for node in nodes)
    if any(isinstance(node, cst.Subscript) for node in nodes):
        return False
    return named or (isinstance(bound.value, Unknown) and _is_share(machine, bound.value.symbol))


def _is_share(machine: Machine, symbol: int) -> bool:
    """Whether a number is computed from one named after channels and from literals."""
    key = machine.symbols.key(symbol)
    if key[0] in _SHARES:
        first, *others = machine.symbols.parts(symbol)
        return all(machine.symbols.key(part)[0] == "value" for part in others) and _is_share(machine, first)
    place = {"parameter": -1, "attribute": 1}.get(str(key[0]))
    return place is not None and CHANNELS.search(str(key[place])) is not None


def of(machine: Machine, op: str, values: Sequence[Value], dtype: str | None) -> frozenset[str]:
    """The traits of the result of `op` on `values`, in `dtype`."""
    known = [value.traits if isinstance(value, Tensor) else frozenset() for value in values]
    given = frozenset[str]().union(*known)
    found = set[str]()
    if op in _RESHAPES:
        found |= given & _KEPT
    if op in _JOINS and not all(INTEGERS in traits for traits in known):
        found -= {INTEGERS, COORDINATES, SIDES, *PAST.values()}
    if op in _SHIFTS:
        found |= given & ({INTEGERS, ANGLES, *PAST.values()} if all(map(_may_be_whole, values)) else {ANGLES})
        if all(SQUARES in traits for traits in known):
            found.add(SQUARES)
            found |= given & {LIFTED_SQUARES} if all(LIFTED_SQUARES in traits for traits in known) else set()
    if op == "sub" and number(values[0]) == 1:
        found.add(INVERTED)
    factors = [traits for value, traits in zip(values, known, strict=True) if not is_number(machine, value)]
    if op in _PRODUCTS and INTEGERS in given and len(factors) > 1:
        found.add(ANGLES)
    if _are_frequencies(machine, op, values, known):
        found.add(FREQUENCIES)
    found |= _of_products(machine, op, values, known)
    if op == "cumsum" and dtype in INTEGRAL:
        found.add(INTEGERS)
    if _squares(machine, op, values):
        found.add(SQUARES)
        if machine.assumes and op in _POWERS and not runs_in_layer(machine):
            found.add(LIFTED_SQUARES)
    return frozenset(found)


def _may_be_whole(value: Value) -> bool:
    """Whether a sum with `value` can still hold integers; a shift by a number leaves neighbours 1 apart."""
    if not isinstance(value, Tensor) or value.dtype is None or value.dtype in INTEGRAL:
        return True
    return not value.traits.isdisjoint({INTEGERS, ZEROS})


def _are_frequencies(machine: Machine, op: str, values: Sequence[Value], known: Sequence[frozenset[str]]) -> bool:
    """Whether these are powers of a base, one per channel, `base ** (arange(n) / n)`, or their multiples."""
    if op == "pow":
        return "positions" in known[-1] and number(values[-1]) is None
    if op == "exp":
        shifted = machine.symbols.key(symbol_of(machine, values[0]))[0] in ("Add", "Subtract")
        return "positions" in known[0] and INTEGERS not in known[0] and not shifted
    scaled = op in ("reciprocal", "mul", "div") and sum(isinstance(value, Tensor) for value in values) == 1
    return scaled and any(FREQUENCIES in traits for traits in known)


def _of_products(machine: Machine, op: str, values: Sequence[Value], known: Sequence[frozenset[str]]) -> frozenset[str]:
    """The traits of norms, of attention scores, and of their products."""
    if op in _NORMS:
        return frozenset({LENGTHS})
    if op in _MATRIX_PRODUCTS and len(values) > 1 and _is_transposed(machine, values[1]):
        return frozenset({SCORES})
    found = {LENGTHS} if LENGTHS in known[0] and op in _RESHAPES else set[str]()
    lengths = sum(LENGTHS in traits for traits in known) if op == "mul" else 0
    if lengths:
        found.add(LENGTHS if lengths == 1 else LENGTH_PRODUCTS)
    if LENGTHS in known[0] and (op == "square" or (op == "pow" and number(values[1]) == 2)):
        found.add(LENGTH_PRODUCTS)
    if SCORES in known[0] and op in ("mul", "div") and len(values) > 1 and _is_scale(machine, op, values[1]):
        found.add(SCALED_LATE)
    return frozenset(found)


def _is_transposed(machine: Machine, value: Value) -> bool:
    key, parts = machine.symbols.key(symbol_of(machine, value)), machine.symbols.parts(symbol_of(machine, value))
    if key[0] == "call" and parts:
        key = machine.symbols.key(parts[0])
    return key[0] in _TRANSPOSES or (key[0] == "attribute" and key[1] in _TRANSPOSES)


def _is_scale(machine: Machine, op: str, value: Value) -> bool:
    """Whether multiplying or dividing by a number, known or not, makes values smaller."""
    constant = number(value)
    if constant is not None:
        return 0 < constant < 1 if op == "mul" else constant > 1
    key = machine.symbols.key(symbol_of(machine, value))
    if key[0] == "Power" or (key[0] == "call" and str(key[1]).endswith("sqrt")):
        return True
    if op == "div" and key[0] == "Multiply":
        return _is_count(machine, symbol_of(machine, value))
    return SCALE_FACTOR.search(_name(machine, value)) is not None


def _is_count(machine: Machine, symbol: int) -> bool:
    """Whether this is a product of sizes, by which a sum over as many elements is averaged."""

    def factors(symbol: int) -> tuple[int, ...]:
        return machine.symbols.parts(symbol) if machine.symbols.key(symbol)[0] == "Multiply" else ()

    every = machine.symbols.closure(symbol, factors)
    return all(factors(one) or is_size(machine, Unknown(one)) for one in every)


def _name(machine: Machine, value: Value) -> str:
    """The name of an attribute or a parameter."""
    key = machine.symbols.key(symbol_of(machine, value))
    return str(key[-1] if key[0] == "parameter" else key[1]) if key[0] in ("attribute", "parameter") else ""


def scale_guesses(machine: Machine, value: Value) -> tuple[Guessed, ...]:
    """The guess by which `value` is a scale that makes values smaller."""
    name = _name(machine, value)
    return SCALE_FACTOR.guesses(name) if name and number(value) is None else ()


def _is_within_one(machine: Machine, symbol: int, depth: int = 4) -> bool:
    """Whether values are at most 1, or differences and products of such, whose squares fit any dtype."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    method = machine.symbols.method(symbol)
    name, inside = method if method is not None else (str(key[0]), parts)
    if name in _WITHIN_ONE:
        return True
    if key[0] == "value":
        constant = number(key[1]) if isinstance(key[1], Const) else None
        return constant is not None and abs(constant) <= 1
    kept = name.partition(" ")[0] in _SUMS_AND_PARTS
    return kept and bool(depth) and bool(inside) and all(_is_within_one(machine, one, depth - 1) for one in inside[:2])


def _is_drawn_here(machine: Machine, symbol: int) -> bool:
    """Whether these are random numbers near 0 drawn by the running function; a caller may pass others."""
    if machine.symbols.key(symbol)[0] in ("cast", "either"):
        parts = machine.symbols.parts(symbol)
        return bool(parts) and all(_is_drawn_here(machine, part) for part in parts)
    drawn = machine[Tensors].drawn
    return symbol in drawn and drawn[symbol] is (machine.calls[-1] if machine.calls else None)


def _squares(machine: Machine, op: str, values: Sequence[Value]) -> bool:
    if values and _is_within_one(machine, symbol_of(machine, values[0])):
        return False
    if values and _is_drawn_here(machine, symbol_of(machine, values[0])):
        return False
    if op == "pow" and len(values) == 2:
        return number(values[1]) == 2
    if op == "mul" and len(values) == 2:
        symbol = symbol_of(machine, values[0])
        return symbol == symbol_of(machine, values[1]) and machine.symbols.key(symbol)[0] not in _SHAPES
    return op == "square"
