"""Scalers with a shorter lifetime than their optimizer: constructed in each call, or in each iteration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.semantics.events import ScalerMadeAnew
from amplint.semantics.memory.ledger import Ledger
from amplint.semantics.python.attributes import CONSTRUCTORS
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Instance, Items, Optimizer, Scaler, Unknown, Value
from amplint.semantics.words import EPOCHS, KEEPS_RECORDS, ONE_EPOCH, OPTIMIZER_NAME, SELF_TEST
from amplint.source import syntax as cst
from amplint.source.tree import every, walk

_LASTING = frozenset({"parameter", "attribute", "name", "index", "made"})
"""Kinds of symbols that stand for what was there before a call from unseen code, where they are as old."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    scaler: Scaler
    function: cst.FunctionDef
    step: cst.CSTNode
    statement: cst.CSTNode | None
    once: bool
    guesses: tuple[Guessed, ...]


def stepped(machine: Machine, state: State, node: cst.CSTNode, scaler: Scaler, optimizer: Optimizer) -> None:
    """`scaler` steps `optimizer`: record it if this call by unseen code constructed it, and the optimizer is older."""
    tracker, function = machine[ShortLived], machine.calls[0] if machine.calls else None
    if scaler.created is None or scaler.loops or scaler.created in tracker.candidates or machine.muted:
        return
    if not isinstance(function, cst.FunctionDef) or function.name.value in CONSTRUCTORS or machine.entered_from:
        return
    if machine.symbols.key(scaler.symbol)[0] != "made" or machine.symbols.time(scaler.symbol) < tracker.began:
        return
    lasting = optimizer.symbol in tracker.held or machine.symbols.key(optimizer.symbol)[0] in _LASTING
    if not lasting or machine.symbols.time(optimizer.symbol) >= tracker.began or SELF_TEST.search(function.name.value):
        return
    if not any(call is scaler.created for call in every(function, cst.Call)) or _is_global(state, scaler):
        return
    guesses = _one_epoch(function, machine.loops) if machine.loops else ()
    if machine.loops and not guesses:
        return
    machine[Ledger].fleeting.add(scaler.created)
    tracker.candidates[scaler.created] = _Candidate(
        scaler, function, node, machine.statement, not machine.loops, guesses
    )


def _is_global(state: State, scaler: Scaler) -> bool:
    held = state.frames.get(MODULE_FRAME, {}).values()
    return any(isinstance(value, Scaler) and value.symbol == scaler.symbol for value in held)


def _one_epoch(function: cst.FunctionDef, loops: Sequence[cst.CSTNode]) -> tuple[Guessed, ...]:
    """The name that implies that `function`, in whose `loops` the scaler steps, runs one epoch of several."""
    headers = [part for loop in loops if isinstance(loop, cst.For) for part in (loop.target, loop.iter)]
    if any(EPOCHS.search(inner.value) for part in headers for inner in walk(part) if isinstance(inner, cst.Name)):
        return ()
    names = [function.name.value, *(parameter.name.value for parameter in function.params.params)]
    return next((ONE_EPOCH.guesses(name) for name in names if ONE_EPOCH.search(name)), ())


class ShortLived(Tracker):
    """Tracks scalers constructed in a call or an iteration, whose optimizer is older.

    `began` is the start of the latest call by unseen code, `held` what its object had by then, `candidates` are scalers
    constructed and used in one, by constructor call, and `kept` are the constructor calls of those that other objects
    hold.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.began = 0
        self.held: frozenset[int] = frozenset()
        self.candidates: dict[cst.CSTNode, _Candidate] = {}
        self.kept: set[cst.CSTNode] = set()

    def is_needed(self) -> bool:
        """Only for rules that ask for it."""
        return ScalerMadeAnew.kind in self.machine.wanted

    def unseen_call_begins(self, state: State, me: Instance | None) -> None:
        """Existing objects persist."""
        self.began = self.machine.symbols.tick()
        held = state.heap.get(me.symbol, {}).values() if me is not None else ()
        self.held = frozenset(value.symbol for value in held if isinstance(value, (Optimizer, Unknown)))

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """A scaler in an attribute persists, unless each call of the method that constructs it replaces it."""
        if not self._is_replaced(target, value):
            self._keep((value,))
        return None

    def _is_replaced(self, target: cst.Attribute, value: Value) -> bool:
        """Whether each call of a method by unseen code assigns a new scaler to an attribute of its object."""
        function, statement = self.machine.calls[0] if len(self.machine.calls) == 1 else None, self.machine.statement
        if not isinstance(function, cst.FunctionDef) or statement not in function.body.body:
            return False
        made = [one.value for one in every(statement, cst.Assign)] if statement is not None else []
        return isinstance(value, Scaler) and made == [value.created] and dotted(target.value) == "self"

    def item_set(self, state: State, target: cst.Subscript, owner: Value, value: Value) -> None:
        """A scaler in a container may persist."""
        self._keep((value,))

    def function_returns(self, state: State, value: Value) -> None:
        """A returned scaler may persist."""
        self._keep((value,))

    def unseen(self, state: State, call: Call) -> None:
        """A callee may keep a scaler; with an optimizer from before the iteration it is for training."""
        scalers = [value for value in call.arguments.values if isinstance(value, Scaler)]
        if not scalers or KEEPS_RECORDS.search(call.name or (dotted(call.node.func) or "").rpartition(".")[2]):
            return
        self._keep(scalers)
        for scaler in scalers:
            self._passed_on(state, call, scaler)

    def _passed_on(self, state: State, call: Call, scaler: Scaler) -> None:
        machine = self.machine
        if scaler.created is None or not scaler.loops or machine.symbols.key(scaler.symbol)[0] != "made":
            return
        for argument in call.arguments.given:
            optimizer, name = argument.value, dotted(argument.node.value) or ""
            if not isinstance(optimizer, (Optimizer, Unknown)) or argument.node.star or not name:
                continue
            named = OPTIMIZER_NAME.search(name) is not None
            loop = self._loop(scaler, optimizer, name, state) if named or isinstance(optimizer, Optimizer) else None
            if loop is not None:
                guesses = () if isinstance(optimizer, Optimizer) else OPTIMIZER_NAME.guesses(name)
                binds = machine.slice.bound(loop)
                machine.emit(
                    state, ScalerMadeAnew, scaler.created, scaler=scaler, around=loop, used=call.node,
                    loop_binds=binds, once=False, guesses=guesses,
                )  # fmt: skip
                return

    def _loop(self, scaler: Scaler, optimizer: Optimizer | Unknown, name: str, state: State) -> cst.CSTNode | None:
        """The outermost loop that constructs the scaler and not the optimizer, known as `name`."""
        for loop, began in zip(self.machine.loops, state.iteration, strict=False):
            older = self.machine.symbols.time(optimizer.symbol) < began
            if loop in scaler.loops and older and not self._binds(loop, name):
                return loop
        return None

    def _binds(self, loop: cst.CSTNode, name: str) -> bool:
        bound: Set[str] = self.machine.slice.bound(loop)
        return name in bound or name.partition(".")[0] in bound

    def _keep(self, values: Iterable[Value]) -> None:
        for value in values:
            if isinstance(value, Scaler) and value.created is not None:
                self.kept.add(value.created)
                self.machine[Ledger].fleeting.discard(value.created)
            elif isinstance(value, Items):
                self._keep(value.values)

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit scalers that nothing holds at the end of the call, once for those of exclusive branches."""
        reported: set[cst.CSTNode] = set()
        for made, one in self.candidates.items() if self.machine.complete else ():
            if made not in self.kept and one.step not in reported:
                reported.add(one.step)
                self.machine.statement = one.statement
                self.machine.emit(
                    State(), ScalerMadeAnew, made, scaler=one.scaler, around=one.function, used=one.step,
                    loop_binds=frozenset(), once=one.once, guesses=one.guesses,
                )  # fmt: skip
