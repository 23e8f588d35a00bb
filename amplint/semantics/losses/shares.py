"""Losses divided by the number of micro-batches for backward, and reads of these as if they were the loss.

Such a share is right where the shares of one window are summed. Logged by itself, or averaged over all micro-batches,
it is too small by their number.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.semantics.events import DividedLossRead, LossMultiplied
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Operands, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.tensors.tensors import is_number
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Tensor, Unknown, Value
from amplint.semantics.words import COUNTS_MICRO_BATCHES, NUMBER_OF_MICRO_BATCHES
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.catalogue import spellings
from amplint.torchlib.methods import SAME_NUMBERS
from amplint.torchlib.policy import words


@dataclass(frozen=True, slots=True)
class Share:
    """A loss divided by the number of micro-batches: the division, the expression of their number, and its symbol."""

    node: cst.CSTNode
    number: cst.BaseExpression
    symbol: int


_ONE = Const(1)
_PRODUCTS = spellings("mul")
_SAME_VALUE = SAME_NUMBERS | words("number item data cast mean numpy tolist builtins.float")


def combined(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    kind: str,
    left: tuple[cst.BaseExpression, Value],
    right: tuple[cst.BaseExpression, Value],
    result: Value,
) -> None:
    """Record `left kind right` that divides a loss or sums shares; report one that averages them."""
    if not isinstance(result, (Tensor, Unknown)):
        return
    if kind == "Multiply":
        for one, factor in ((left[1], right[1]), (right[1], left[1])):
            _multiplied(machine, node, one, factor, result)
    if kind == "Divide" and right[1] != _ONE and _counts_micro_batches(right[0]) and not is_number(machine, left[1]):
        machine[Shares].known[result.symbol] = Share(node, right[0], symbol_of(machine, right[1]))
    elif not machine[Shares].known:
        return
    elif kind == "Add" and machine.loops:
        found = share_in(machine, right[1])
        if found is not None and (isinstance(right[1], Unknown) or _is_detached(machine, right[1])):
            machine[Shares].summed[result.symbol] = (found[1].symbol, found[0], node, machine.loops[-1])
    elif kind == "Divide":
        for of, share, where, loop in _sums(machine, symbol_of(machine, left[1])):
            if _counts_rounds(right[0], loop):
                _report_share_read(machine, state, where, of, share, "averaged")


def _multiplied(machine: Machine, node: cst.CSTNode, loss: Value, factor: Value, result: Value) -> None:
    """Record an undivided loss multiplied by a number of micro-batches, by its name."""
    if not isinstance(factor, Unknown) or is_number(machine, loss) or not isinstance(loss, (Tensor, Unknown)):
        return
    key = machine.symbols.key(factor.symbol)
    place = {"attribute": 1, "parameter": -1}.get(str(key[0]))
    name = str(key[place]) if place is not None else ""
    if NUMBER_OF_MICRO_BATCHES.search(name) and not _is_divided(machine, symbol_of(machine, loss)):
        machine[Shares].multiplied[symbol_of(machine, result)] = node, NUMBER_OF_MICRO_BATCHES.guesses(name)


def _is_divided(machine: Machine, symbol: int) -> bool:
    """Whether `symbol` is computed by arithmetic from a quotient."""
    while machine.symbols.parts(symbol):
        kind = machine.symbols.key(symbol)[0]
        if kind in ("Divide", "div", "true_divide", "either"):
            return True
        if kind not in _SAME_VALUE | {"Multiply", "mul"}:
            return False
        symbol = machine.symbols.parts(symbol)[0]
    return False


def _counts_micro_batches(node: cst.BaseExpression) -> bool:
    name = (dotted(node) or "").rpartition(".")[2]
    return COUNTS_MICRO_BATCHES.search(name) is not None


def _counts_rounds(node: cst.BaseExpression, loop: cst.CSTNode) -> bool:
    """Whether `node` is the length of the iterable of `loop`."""
    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "len" and node.args):
        return False
    over = {dotted(inner) for inner in walk(loop.iter)} if isinstance(loop, cst.For) else set()
    return dotted(node.args[0].value) in over - {None}


def _is_detached(machine: Machine, value: Value) -> bool:
    return machine.symbols.key(symbol_of(machine, value))[0] in _SAME_VALUE


def share_in(machine: Machine, value: Value) -> tuple[Share, Tensor | Unknown] | None:
    """The share that `value` is or was read from, and that share as a value."""
    if not machine[Shares].known or not isinstance(value, (Tensor, Unknown)):
        return None
    symbol = value.symbol
    while symbol not in machine[Shares].known:
        key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
        if machine.symbols.callee(symbol) is not None:
            name, of = machine.symbols.method(symbol) or ("", ())
            parts = of if name in _SAME_VALUE else ()
        elif key[0] not in _SAME_VALUE and key[:2] not in (("call", "builtins.float"), ("attribute", "data")):
            return None
        if not parts:
            return None
        symbol = parts[0]
    return machine[Shares].known[symbol], Unknown(symbol)


def _sums(machine: Machine, symbol: int) -> Iterator[tuple[int, Share, cst.CSTNode, cst.CSTNode]]:
    todo, seen = [symbol], set()
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        if current in machine[Shares].summed:
            yield machine[Shares].summed[current]
        elif machine.symbols.key(current)[0] in ("either", "number", "call"):
            todo += machine.symbols.parts(current)


def read(machine: Machine, state: State, node: cst.CSTNode, value: Value, how: str) -> None:
    """Report a share that is logged or compared."""
    found = share_in(machine, value)
    if found is not None:
        _report_share_read(machine, state, node, found[1].symbol, found[0], how)


def _report_share_read(machine: Machine, state: State, node: cst.CSTNode, of: int, share: Share, how: str) -> None:
    """Report a read of a share once backward is known to run on it, which may be later."""
    if any(of in losses for losses in machine[Rhythm].losses.values()):
        machine.emit(
            state, DividedLossRead, node, division=share.node, number=share.number, how=how,
            guesses=_guesses(machine, share),
        )  # fmt: skip
    else:
        machine[Shares].early_reads.setdefault(of, []).append((state.copy(), node, share, how))


def _guesses(machine: Machine, share: Share) -> tuple[Guessed, ...]:
    """The guesses by which the divisor is the number of micro-batches, none where a boundary condition counts to it."""
    ends = (found.every for found in machine[Rhythm].boundaries.values() if found is not None)
    name = (dotted(share.number) or "").rpartition(".")[2]
    return () if share.symbol in ends else COUNTS_MICRO_BATCHES.guesses(name)


def backward_ran(machine: Machine, state: State, symbol: int) -> None:
    """Handle a backward pass on `symbol`."""
    if symbol in machine[Shares].multiplied:
        node, guesses = machine[Shares].multiplied[symbol]
        machine.emit(state, LossMultiplied, node, guesses=guesses)
    for state, node, share, how in machine[Shares].early_reads.pop(symbol, ()):
        _report_share_read(machine, state, node, symbol, share, how)


class Shares(Tracker):
    """Shares of losses and their sums by symbol, and reads before a possible backward pass.

    `multiplied` are losses times the number of micro-batches: the node, and the guesses about the factor.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.known: dict[int, Share] = {}
        self.summed: dict[int, tuple[int, Share, cst.CSTNode, cst.CSTNode]] = {}
        self.early_reads: dict[int, list[tuple[State, cst.CSTNode, Share, str]]] = {}
        self.multiplied: dict[int, tuple[cst.CSTNode, tuple[Guessed, ...]]] = {}

    def binary_result(self, state: State, operands: Operands, result: Value) -> Value | None:
        """Handle a division of a loss, or a sum or average of shares."""
        combined(self.machine, state, operands.node, operands.kind, operands.left, operands.right, result)
        return None

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Handle `loss.mul(n)`."""
        if call.name in _PRODUCTS and call.owner is not None and len(call.arguments.given) == 1:
            _multiplied(self.machine, call.node, call.owner, call.arguments.values[0], result)
