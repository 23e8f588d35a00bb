"""Frequencies computed in half, or rounded to it, before positions are multiplied by them.

An angle is off by the relative error of its frequency times the angle itself, so that float32 positions do not help.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.findings import Guessed
from amplint.premises import Premise
from amplint.records import dataclass
from amplint.regex import regex
from amplint.semantics.events import ANGLES, FREQUENCIES, INTEGERS, SIDES, Evidence, FrequenciesRounded, Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker, Words
from amplint.semantics.tensors.cast_back import name_within
from amplint.semantics.tensors.evidence import evidence, evidence_of_source
from amplint.semantics.tensors.tensors import FROM_PARAMETER
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor
from amplint.semantics.words import POSITION, TIME
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import words

_POWERS = words("pow exp exp2")
_PRODUCTS = words("mul multiply outer ger matmul mm bmm einsum")
_CASTS = frozenset({"cast", "converted"})
_WIDE = frozenset({"float32", "float64"})
_CALLS = words("arange outer ger einsum matmul mul cos sin to type_as exp pow")
_MAKES_FREQUENCIES = regex(r"\*\* ?-? ?\(?[^\n]{0,200}arange\(|(?:exp|pow)\([^\n]{0,200}arange\(|freq|theta|omega")
_TYPED = regex(r"\bdtype\b|type_as\(|\.half\(|float16")


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """The call that gave frequencies, or the exponents they are computed from, their dtype, and why it can be half."""

    node: cst.CSTNode
    half: Evidence
    follows: bool


def ran(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    op: str,
    operands: Sequence[Operand],
    result: Tensor,
    *,
    follows: bool,
) -> None:
    """Record frequencies that can be half, and emit `FrequenciesRounded` where positions are multiplied by them."""
    if op in ("arange", "to"):
        moved = op == "to" and operands[0].dtype in HALF_DTYPES
        if not moved and not result.traits.isdisjoint({"positions", FREQUENCIES}):
            _record_dtype(machine, state, node, result, follows=follows)
    elif op in _POWERS and FREQUENCIES in result.traits:
        exponent = operands[-1].value
        if isinstance(exponent, Tensor) and exponent.dtype not in _WIDE:
            found = next(_found(machine, machine[CoarseFrequencies].typed, exponent.symbol, through_casts=False), None)
            if found is not None:
                machine[CoarseFrequencies].rounded[result.symbol] = found
    elif op in _PRODUCTS and machine[CoarseFrequencies].rounded:
        _emit_products(machine, state, node, operands, result)


def keep(machine: Machine, symbol: int, kept: int) -> None:
    """Record that the buffer `kept` holds the tensor `symbol`."""
    rounded = machine[CoarseFrequencies].rounded
    if rounded and (found := next(_found(machine, rounded, symbol), None)) is not None:
        rounded[kept] = found


def _record_dtype(machine: Machine, state: State, node: cst.CSTNode, result: Tensor, *, follows: bool) -> None:
    """Record a tensor created in half or converted to it, or to a dtype that can be half."""
    known = result.dtype in (*HALF_DTYPES, FROM_PARAMETER)
    half = evidence(machine, state, result) if known else None
    if not known and follows and machine.assumes and result.dtypes is None:
        half = evidence_of_source(machine, node, result)
    if half is not None:
        alike = result.dtype not in HALF_DTYPES
        memory = machine[CoarseFrequencies]
        table = memory.rounded if FREQUENCIES in result.traits else memory.typed
        table[result.symbol] = Rounding(node=node, half=half, follows=alike)


def _found(
    machine: Machine, table: dict[int, Rounding], symbol: int, *, through_casts: bool = True
) -> Iterator[Rounding]:
    """The entries of `table` that went into a tensor, without those cast to float32 since if not `through_casts`."""
    symbols = machine.symbols

    def operands(one: int) -> Sequence[int]:
        key = symbols.key(one)
        if one in table or (not through_casts and key[0] in _CASTS and key[1] in _WIDE):
            return ()
        method = symbols.method(one)
        return symbols.parts(one) if method is None else (*method[1], *symbols.parts(one)[1:])

    return (table[one] for one in symbols.closure(symbol, operands) if one in table)


def _emit_products(
    machine: Machine, state: State, node: cst.CSTNode, operands: Sequence[Operand], result: Tensor
) -> None:
    """Emit `FrequenciesRounded` for a product of positions and coarse frequencies.

    Where the angles themselves are half, the sines and cosines of them are reported instead.
    """
    if result.dtype in (*HALF_DTYPES, FROM_PARAMETER):
        return
    for operand in operands:
        value = operand.value
        if not isinstance(value, Tensor) or FREQUENCIES not in value.traits or ANGLES in value.traits:
            continue
        positions = _positions([one for one in operands if one is not operand])
        rounded = machine[CoarseFrequencies].rounded
        found = next(_found(machine, rounded, value.symbol), None) if positions is not None else None
        if positions is None or found is None:
            continue
        few, guesses, unseen = positions
        machine.emit(
            state, FrequenciesRounded, found.node, half=found.half, by=node, follows=found.follows, few=few,
            assumed=found.follows, guesses=guesses, premises=unseen,
        )  # fmt: skip


def _positions(others: Sequence[Operand]) -> tuple[bool, tuple[Guessed, ...], tuple[Premise, ...]] | None:
    """Whether the positions among the factors are rows or columns of an image, the guesses and the premises.

    None without any positions.
    """
    for one in others:
        traits = one.value.traits if isinstance(one.value, Tensor) else frozenset()
        name = name_within(one.node)
        if INTEGERS in traits:
            return SIDES in traits, (), ()
        if POSITION.search(name):
            return False, POSITION.guesses(name), (Premise.COUNTED,) if TIME.search(name) else ()
    return None


class CoarseFrequencies(Tracker):
    """Tracks frequencies that can be half: `rounded` maps their symbols to what gave them their dtype.

    `typed` does so for the exponents that they are computed from.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.rounded: dict[int, Rounding] = {}
        self.typed: dict[int, Rounding] = {}

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return FrequenciesRounded.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The calls that make frequencies and angles, in a file that sets the dtype of frequencies."""
        return Words(calls=_CALLS) if any(map(_sets_dtype, chunks)) else Words()


@cached_per_chunk
def _sets_dtype(chunk: Chunk) -> bool:
    """Whether the text makes frequencies and speaks of dtypes other than float32."""
    if "arange" not in chunk.words:
        return False
    return _MAKES_FREQUENCIES.search(chunk.text) is not None and _TYPED.search(chunk.text) is not None
