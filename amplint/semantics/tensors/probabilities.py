"""Complements `1 - p` of probabilities that were computed in half.

Autocast leaves a sigmoid in the dtype of its input. In float16 it is 1 past 8.3, in bfloat16 past 6.2, and a power or
a logarithm of `1 - p` computed in float32 afterwards is 0 or infinite. The same holds for a hyperbolic tangent, whose
square is subtracted from 1, and for the inverses of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.semantics.events import How, Operand, Sensitive
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors import provenance
from amplint.semantics.tensors.sensitive import emit_sensitive, is_wide
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Tensor, number
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import words

_PROBABILITIES = words("sigmoid tanh")
_LOGARITHMS = words("log log2 log10 sqrt rsqrt reciprocal")
_INVERSES = words("logit atanh arctanh")
_OF_COMPLEMENTS = words("log1p")
_POWERS, _QUOTIENTS = words("pow"), words("div")
_KEEP = (
    operations_with("keeps")
    | operations_with("limits")
    | provenance.ARITHMETIC
    | words("Minus Power index part abs where pow square")
)
_TELLING = _LOGARITHMS | _INVERSES | _OF_COMPLEMENTS | _POWERS | _QUOTIENTS
"""Operations sensitive to the distance from 1, of a complement or of the probability itself."""
_OF_NUMBERS = words("log log2 log10 log1p")
"""Operations on positive numbers only, so that an operand subtracted from 1 is a probability, whatever computed it."""
_ONE = Const(1)
_FAR = 32
"""The limit of values followed backwards."""


def ran(machine: Machine, state: State, node: cst.CSTNode, op: str, operands: Sequence[Operand], made: Tensor) -> None:
    """Record a sigmoid whose operand may be half, or report an operation that is sensitive to the distance from 1."""
    if Sensitive.kind not in machine.wanted:
        return
    value = operands[1 if op in _QUOTIENTS and len(operands) > 1 else 0].value
    if op in _PROBABILITIES:
        if operands[0].half is not None and _may_be_half(machine, value):
            machine[Probabilities].made[made.symbol] = (node, op, operands[0])
    elif op in _OF_NUMBERS and operands[0].half is not None and _is_complement(machine, state, op, value):
        emit_sensitive(machine, state, node, "1 - p", operands[0], How.COMPLEMENT)
    elif op in _TELLING and machine[Probabilities].made and isinstance(value, Tensor):
        exponent = number(operands[1].value) if op in _POWERS and len(operands) > 1 else None
        if exponent == 1:
            return
        known, others = op in _INVERSES, op in _POWERS and exponent != 2
        negated = op not in _OF_COMPLEMENTS or machine.symbols.key(value.symbol)[0] in ("Minus", "Multiply", "neg")
        for symbol in _compared(machine, value.symbol, known or op in _OF_COMPLEMENTS, others=others):
            place, name, operand = machine[Probabilities].made[symbol]
            if negated:
                emit_sensitive(machine, state, place, name, operand, How.COMPLEMENT, node)
            return


def _may_be_half(machine: Machine, value: object) -> bool:
    if not isinstance(value, Tensor):
        return False
    return value.dtype in HALF_DTYPES or (value.dtypes is None and not is_wide(machine, value.symbol))


def _is_complement(machine: Machine, state: State, op: str, value: object) -> bool:
    """Whether `value`, which may be half within a region, is `1 - p`, or for `log1p` a negated value."""
    if not _may_be_half(machine, value) or not isinstance(value, Tensor) or innermost(machine, state)[0] is None:
        return False
    symbol = value.symbol
    if op in _OF_COMPLEMENTS:
        minus = machine.symbols.key(symbol)[0] in ("Minus", "neg")
        return minus and machine.symbols.parts(symbol)[0] not in machine[Probabilities].made
    for _ in range(_FAR):
        key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
        name = str(key[0]).partition(" ")[0]
        if name in ("Subtract", "sub") and parts and _is_one(machine, parts[0]):
            return parts[1] not in machine[Probabilities].made
        if name not in ("Add", "add", "clamp", "clamp_min") or not parts:
            return False
        symbol = parts[0]
    return False


def _compared(machine: Machine, symbol: int, compared: bool, *, others: bool) -> Iterator[int]:
    """The probabilities whose distance from 1, or with `others` from another tensor, went into `symbol`.

    With `compared`, all probabilities that went into it.
    """
    known = machine[Probabilities].made
    todo, seen = [(symbol, compared)], set[tuple[int, bool]]()
    while todo and len(seen) < _FAR:
        current, compared = todo.pop()
        if (current, compared) in seen:
            continue
        seen.add((current, compared))
        if current in known:
            if compared:
                yield current
            continue
        key, parts = machine.symbols.key(current), machine.symbols.parts(current)
        name = str(key[1] if key[0] == "attribute" else key[0])
        if (callee := machine.symbols.method(current)) is not None:
            name, parts = callee
        name = name.partition(" ")[0].removesuffix("_")
        if name not in _KEEP:
            continue
        distance = name in ("Subtract", "sub") and (others or _is_one(machine, parts[0]))
        todo += [(part, compared or distance) for part in parts]


def _is_one(machine: Machine, symbol: int) -> bool:
    key = machine.symbols.key(symbol)
    return key[0] == "value" and key[1] in (_ONE, Const(1.0))


class Probabilities(Tracker):
    """The probabilities by symbol: node, operation and operand."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.made: dict[int, tuple[cst.CSTNode, str, Operand]] = {}
