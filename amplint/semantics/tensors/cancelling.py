"""Overflow and cancellation in float16 arithmetic without a reduction: areas of boxes, variances by difference.

`E[x * x] - E[x] ** 2` subtracts two numbers that agree in most digits, of which half has three. The sides of a box
past 256 pixels multiply to more than float16 holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from amplint.regex import regex
from amplint.semantics.events import How, Operand, Sensitive
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.tensors import subregions, supposed
from amplint.semantics.tensors.cast_back import switches_off
from amplint.semantics.tensors.datasets import layer_around
from amplint.semantics.tensors.evidence import evidence
from amplint.semantics.tensors.kinship import arrays_in
from amplint.semantics.tensors.provenance import conversion, is_array
from amplint.semantics.tensors.sensitive import emit_sensitive, is_wide
from amplint.semantics.tensors.tensors import tensor
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.torchlib.catalogue import OPERATIONS
from amplint.torchlib.policy import words

_SQUARED = words("Power pow square")
_ADDS_UP = words("mean sum nansum nanmean")
_AVERAGES = words("conv1d conv2d conv3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool2d")
_LIMITS = words("max min maximum minimum clamp clamp_min relu abs builtins.max builtins.min")
_SHIFTS = words("Add add")
_SPLITS = words("unbind chunk split tensor_split")
_SIDES = {(0, 2), (1, 3)}
"""Pairs of coordinate indices of a box whose difference is the length of a side."""
_OF_SQUARES = regex(
    r"\b(\w{1,80})\(\s{0,80}(\w{1,80}) ?(?:\* ?\2\b|\*\* ?2\b|\.pow\(2\)|\.square\(\))[^\n]{0,200}\)\s*-"
)
"""A call with the square of a name as an argument, from whose result something is subtracted."""
_COLUMNS = regex(r"unbind|chunk|split|\[(?:\.\.\.|:), ?[0-3]\]")
_SIDES_MULTIPLIED = regex(
    r"\(\s{0,80}(\w{1,80})[^()\n*+]{0,60} - [^()\n*]{0,60}\)[^\n(*]{0,60}(?:\([^()\n]{0,20}\))? ?\*\s*\("
)
"""A parenthesised difference multiplied by another parenthesised factor."""
_FAR = 8
_TWO = Const(2)
Place = tuple[cst.BaseExpression, Value]


def computed(machine: Machine, state: State, node: cst.CSTNode, kind: str, left: Place, right: Place) -> None:
    """Report a variance computed as a difference, or the area of a box."""
    if kind not in ("Subtract", "Multiply") or not machine.calls or Sensitive.kind not in machine.wanted:
        return
    sides = symbol_of(machine, left[1]), symbol_of(machine, right[1])
    if kind == "Multiply" and not _is_area(machine, *sides):
        return
    if kind == "Subtract" and not _is_variance(machine, *sides):
        return
    decorated = (function for function in machine.calls if isinstance(function, cst.FunctionDef))
    if subregions.is_switched_off(state) or any(map(switches_off, decorated)):
        return
    if any(is_wide(machine, symbol) for symbol in sides):
        return
    how = How.AREA if kind == "Multiply" else How.CANCELS
    if machine[Cancelling].reported.setdefault((machine.calls[-1], how), node) is not node:
        return
    value = tensor(machine, left[1])
    half = evidence(machine, state, value)
    if half is not None and "float16" in half.dtypes and conversion(machine, value.symbol) != "float32":
        emit_sensitive(machine, state, node, "mul" if how is How.AREA else "sub", Operand(left[0], value, half), how)


def _is_variance(machine: Machine, whole: int, taken: int) -> bool:
    """Whether this is `f(x * x) - f(x) ** 2`, with the same unseen function or convolution `f` on both sides."""
    mean = _root(machine, taken)
    if mean is None or str(machine.symbols.key(whole)[0]) in _ADDS_UP:
        return False
    squares = [(one, root) for one in machine.symbols.derivation(whole) if (root := _root(machine, one)) is not None]
    averaged = any(_averages(machine, one) for one in machine.symbols.derivation(mean))
    return averaged and any(_equals_with_substitution(machine, whole, mean, *pair) for pair in squares)


def _averages(machine: Machine, symbol: int) -> bool:
    """Whether this is the result of a convolution or pooling of PyTorch, or of an unseen submodule of a layer."""
    if machine.symbols.key(symbol)[0] in _AVERAGES:
        return True
    callee = machine.symbols.callee(symbol)
    called = machine.symbols.key(callee) if callee is not None else machine.symbols.key(symbol)
    return called[0] in ("attribute", "call") and layer_around(machine) is not None and not _is_of_library(called)


def _is_of_library(called: tuple[object, ...]) -> bool:
    """Whether the callee belongs to another library."""
    return called[0] == "call" and "." in str(called[1])


def _root(machine: Machine, symbol: int) -> int | None:
    """The symbol that `symbol` is the square of; None if it is no square."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] in ("Multiply", "mul") and len(parts) == 2 and parts[0] == parts[1]:
        return parts[0]
    if key[0] not in _SQUARED or not parts:
        return None
    if key[0] == "Power":
        return parts[0] if machine.symbols.key(parts[1])[:2] == ("value", _TWO) else None
    return parts[0] if key[0] == "square" or _TWO in _constants(machine, key) else None


def _constants(machine: Machine, key: tuple[object, ...]) -> list[object]:
    """The constants among the other arguments in the key of an operation."""
    others = key[1] if len(key) > 1 and isinstance(key[1], tuple) else ()
    keys = [machine.symbols.key(one[1]) for one in others if isinstance(one, tuple)]
    return [key[1] for key in keys if key[0] == "value"]


def _equals_with_substitution(
    machine: Machine, one: int, other: int, square: int, root: int, depth: int = _FAR
) -> bool:
    """Whether `one` is the same expression as `other` with `square` substituted for `root`."""
    if one == square:
        return other == root
    if one == other or not depth:
        return one == other
    parts, others = machine.symbols.parts(one), machine.symbols.parts(other)
    if len(parts) != len(others) or not parts:
        return False
    key, like = machine.symbols.key(one), machine.symbols.key(other)
    if key[0] != like[0] or (key[0] == "call" and key[1] != like[1]):
        return False
    return all(
        _equals_with_substitution(machine, *pair, square, root, depth - 1) for pair in zip(parts, others, strict=True)
    )


def _is_area(machine: Machine, one: int, other: int) -> bool:
    """Whether two sides of a box are multiplied: the differences of its coordinates 0 and 2, and 1 and 3."""
    sides = {_side(machine, one), _side(machine, other)}
    return sides == _SIDES


def _side(machine: Machine, symbol: int) -> tuple[int, int] | None:
    """The indices of the box coordinates whose difference this is, also with a number added or a limit applied."""
    symbol = _within(machine, symbol, _LIMITS | _SHIFTS)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] not in ("Subtract", "sub") or len(parts) != 2:
        return None
    far, near = (_coordinate(machine, part) for part in parts)
    return (near, far) if near is not None and far is not None else None


def _coordinate(machine: Machine, symbol: int) -> int | None:
    """The index of the column, or of the part of a split, that `symbol` selects."""
    symbol = _within(machine, symbol, _LIMITS)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "index" and len(key) > 2 and isinstance(key[1], tuple) and len(key[1]) > 1:
        columns = all(isinstance(each, tuple) for each in key[1][:-1])
        last = machine.symbols.key(key[1][-1]) if columns and isinstance(key[1][-1], int) else ()
        number = last[1].value if last[:1] == ("value",) and isinstance(last[1], Const) else None
        owner = _is_tensor(machine, parts[0])
        return number if owner and isinstance(number, int) else None
    if key[0] == "part" and len(key) > 1 and isinstance(key[1], int):
        return key[1] if _splits(machine, parts[0]) else None
    name = str(key[0])
    if name.startswith("part ") and _splits(machine, parts[0]):
        return int(name.partition(" ")[2])
    return None


def _splits(machine: Machine, symbol: int) -> bool:
    """Whether the symbol is the result of splitting a tensor."""
    method = machine.symbols.method(symbol)
    return (method[0] if method is not None else machine.symbols.key(symbol)[0]) in _SPLITS


def _is_tensor(machine: Machine, symbol: int) -> bool:
    """Whether boxes are a tensor rather than an array: computed by PyTorch, or a parameter used as one."""
    symbols = machine.symbols

    def is_one(symbol: int) -> bool:
        key, method = symbols.key(symbol), symbols.method(symbol)
        if key[0] == "parameter":
            functions = (function for function in machine.calls if isinstance(function, cst.FunctionDef))
            return any(
                str(key[2]) in supposed.certain_tensors(function) - arrays_in(function) for function in functions
            )
        if key[0] == "index" and is_array(machine, symbol):
            return False
        return str(key[0]) in OPERATIONS or (method is not None and _is_tensor(machine, method[1][0]))

    return any(map(is_one, symbols.alternatives(symbol)))


def _within(machine: Machine, symbol: int, operations: frozenset[str]) -> int:
    """The first operand behind operations that limit or shift `symbol`."""
    for _ in range(_FAR):
        key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
        method = machine.symbols.method(symbol)
        name, inside = method if method is not None else (str(key[0]), parts)
        if name not in operations or not inside:
            return symbol
        symbol = inside[0]
    return symbol


class Cancelling(Tracker):
    """The first area of boxes, and the first variance, in each function."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.reported: dict[tuple[cst.CSTNode, How], cst.CSTNode] = {}

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The names whose differences are sides of boxes, and the callees that average squares."""
        if not self.machine.assumes or Sensitive.kind not in self.machine.wanted:
            return Words()
        return Words(frozenset().union(*map(_sides, chunks)), calls=frozenset().union(*map(_minuend_callees, chunks)))


@cached_per_chunk
def _sides(chunk: Chunk) -> frozenset[str]:
    """The names whose differences are sides of boxes."""
    return frozenset(_SIDES_MULTIPLIED.findall(chunk.text) if _COLUMNS.search(chunk.text) else ())


@cached_per_chunk
def _minuend_callees(chunk: Chunk) -> frozenset[str]:
    """The callees whose argument is a square and from whose result something is subtracted."""
    return frozenset(found[0] for found in _OF_SQUARES.findall(chunk.text))
