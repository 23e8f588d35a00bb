"""Windows of micro-batches that Accelerate keeps: it divides the loss by their number, and tells when they end."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.events import ClearedInWindow, ClippedEachTime, DividedTwice
from amplint.semantics.frameworks.frameworks import spelled, synced
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Operands, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import NONE, Const, Manager, Value
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.torchlib.frameworks import CLIPPING, DIVIDING, WINDOW

_STEPS = "gradient_accumulation_steps"
_EVENTS = frozenset({ClearedInWindow.kind, ClippedEachTime.kind, DividedTwice.kind})


class _Block:
    """A `with` statement that enters a micro-batch of `manager`, and its calls in the current iteration.

    `cleared` maps the symbols of optimizers and models whose gradients were cleared before any step of theirs to that
    call; `backward` maps them to the first backward pass after it.
    """

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.cleared: dict[int, cst.Call] = {}
        self.backward: dict[int, cst.Call] = {}
        self.stepped: set[int] = set()


class MicroBatches(Tracker):
    """Follows divisions of losses, and what is clipped or cleared in a window.

    `windows` are the calls that begin a micro-batch, `blocks` the `with` statements that enter one, and `divisions`, by
    what came of it, the divisions of something that is no sum, with the symbol of the divisor.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.windows: set[cst.CSTNode] = set()
        self.blocks: dict[cst.CSTNode, _Block] = {}
        self.divisions: dict[int, tuple[cst.CSTNode, int]] = {}

    def is_needed(self) -> bool:
        """Only for rules that ask for it."""
        return not self.machine.wanted.isdisjoint(_EVENTS)

    def call_begins(self, state: State, call: Call) -> None:
        """A micro-batch begins, its loss is passed, or its gradients are cleared, clipped or used."""
        owner = call.owner
        if self.blocks and owner is not None and call.name in ("zero_grad", "step"):
            self._worked_on(state, call, owner)
        if isinstance(owner, Manager) and owner.kind in DIVIDING:
            self._managed(state, call, owner)

    def _managed(self, state: State, call: Call, manager: Manager) -> None:
        if call.name == WINDOW:
            self.windows.add(call.node)
        elif call.name in CLIPPING and manager.steps is not None and not synced(self.machine, state, manager):
            if any(one.manager == manager and _stands_open(block, call.node) for block, one in self.blocks.items()):
                name = spelled(self.machine, state, manager)
                self.machine.emit(state, ClippedEachTime, call.node, call=call.node, manager=manager, spelled=name)
        elif call.name == "backward" and call.arguments.given and manager.steps is not None:
            self._passed_back(call, manager)
            self._handed(state, call, manager, call.arguments.values[0])

    def _worked_on(self, state: State, call: Call, owner: Value) -> None:
        """`owner`, which may be an optimizer or a model, clears gradients or steps."""
        symbol = symbol_of(self.machine, owner)
        for block, one in self.blocks.items():
            if not _stands_open(block, call.node):
                continue
            if call.name == "zero_grad":
                if symbol not in one.stepped and symbol not in one.backward:
                    one.cleared[symbol] = call.node
                continue
            one.stepped.add(symbol)
            cleared, backward = one.cleared.get(symbol), one.backward.get(symbol)
            if cleared is not None and backward is not None:
                details = {"backward": backward, "step": call.node, "manager": one.manager}
                self.machine.emit(state, ClearedInWindow, cleared, **details)

    def _passed_back(self, call: Call, manager: Manager) -> None:
        for block, one in self.blocks.items():
            if one.manager == manager and _stands_open(block, call.node):
                for symbol in one.cleared:
                    one.backward.setdefault(symbol, call.node)

    def _handed(self, state: State, call: Call, manager: Manager, loss: Value) -> None:
        division, by = self.divisions.get(symbol_of(self.machine, loss), (None, -1))
        assert manager.steps is not None
        own = self.machine.unknown("attribute", _STEPS, parts=(manager.symbol,)).symbol
        if division is not None and by in (symbol_of(self.machine, manager.steps), own):
            self.machine.emit(state, DividedTwice, call.node, division=division, manager=manager)

    def entered(self, state: State, value: Value, by: cst.CSTNode, item: cst.BaseExpression | None) -> None:
        """A `with` statement begins a micro-batch."""
        if item in self.windows and isinstance(item, cst.Call) and isinstance(item.func, cst.Attribute):
            manager = self.machine.evaluate(state, item.func.value)
            if isinstance(manager, Manager):
                self.blocks[by] = _Block(manager)

    def combined(self, state: State, operands: Operands, result: Value) -> Value | None:
        """A division."""
        if operands.kind == "Divide" and operands.right[1] not in (NONE, Const(1)):
            by = symbol_of(self.machine, operands.right[1])
            if self.machine.symbols.key(symbol_of(self.machine, operands.left[1]))[0] != "Add":
                self.divisions[symbol_of(self.machine, result)] = (operands.node, by)
        return None


def _stands_open(block: cst.CSTNode, call: cst.Call) -> bool:
    """Whether `call` stands in `block`, below no condition that may tell where a window ends."""
    if not any(node is call for node in walk(block)):
        return False
    around = (one for one in every(block, cst.If) if any(node is call for node in walk(one)))
    return not any(_may_end(one.test) for one in around)


def _may_end(test: cst.BaseExpression) -> bool:
    counts = any(isinstance(node, cst.Modulo) for node in walk(test))
    return counts or any("sync" in name or "step" in name for name in _names(test))


def _names(test: cst.BaseExpression) -> Iterator[str]:
    return (node.value for node in every(test, cst.Name))
