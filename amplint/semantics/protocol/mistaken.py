"""Steps of another optimizer than the one whose gradients were unscaled."""

from __future__ import annotations

import re
from collections.abc import Sequence

from amplint.records import dataclass
from amplint.semantics.events import OptState, SteppedAnother
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Scaler
from amplint.source import syntax as cst


@dataclass(frozen=True, slots=True)
class _Candidate:
    unscaled: cst.CSTNode
    statement: cst.CSTNode | None
    meant: str
    taken: str


def updated(machine: Machine, state: State, scaler: Scaler) -> None:
    """`scaler.update()`: record a single optimizer that was unscaled and not stepped, if another one was stepped."""
    _record_strangers(machine, state, scaler)
    pairs = [(optimizer, stage) for (one, optimizer), stage in state[Progress].pairs.items() if one == scaler.symbol]
    if len(pairs) != 2 or any(optimizer == ANY_OPTIMIZER or stage.node is None for optimizer, stage in pairs):
        return
    (meant, first), (taken, second) = sorted(pairs, key=lambda pair: pair[1].state is OptState.STEPPED)
    if first.state is not OptState.UNSCALED or second.state is not OptState.STEPPED or first.unchecked:
        return
    related = meant in machine.symbols.derivation(taken) or taken in machine.symbols.derivation(meant)
    names = [_name(machine, meant), _name(machine, taken)]
    if related or not all(names) or names[0] == names[1] or second.node in machine[Mistaken].candidates:
        return
    assert first.node is not None
    assert second.node is not None
    machine[Mistaken].candidates[second.node] = _Candidate(first.node, machine.statement, *names)


def _record_strangers(machine: Machine, state: State, scaler: Scaler) -> None:
    """Record steps of an attribute of the object that also keeps an optimizer of `scaler` that was not stepped."""
    stages = {optimizer: stage for (one, optimizer), stage in state[Progress].pairs.items() if one == scaler.symbol}
    names = {optimizer: name for optimizer in stages if (name := _name(machine, optimizer))}
    left = [one for one in names if stages[one].state is not OptState.STEPPED]
    for taken, name in names.items():
        step, owner = stages[taken].node, name.rpartition(".")[0]
        if taken in left or step is None or not owner or step in machine[Mistaken].strangers:
            continue
        beside = [one for one in left if names[one].rpartition(".")[0] == owner]
        if len(beside) == 1:
            given = machine[CallIndex].index.optimizers[beside[0]][0]
            found = _Candidate(given, machine.statement, names[beside[0]], name)
            machine[Mistaken].strangers[step] = found


def _name(machine: Machine, optimizer: int) -> str:
    """The only path by which calls of the protocol name an optimizer."""
    paths = {dotted(node) for node in machine[CallIndex].index.optimizers.get(optimizer, ())}
    return (paths.pop() or "") if len(paths) == 1 else ""


class Mistaken(Tracker):
    """Tracks optimizers that are unscaled and never stepped; `candidates` are the steps of other optimizers.

    `strangers` are the steps of attributes beside an optimizer that this path has not stepped.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.candidates: dict[cst.CSTNode, _Candidate] = {}
        self.strangers: dict[cst.CSTNode, _Candidate] = {}

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit those that nothing in the program steps, or beside which what does not exist is stepped."""
        if not self.machine.complete:
            return
        for step, one in self.strangers.items():
            if self._is_absent(one):
                self.candidates.pop(step, None)
                self._emit(step, one, absent=True)
        for step, one in self.candidates.items():
            meant, taken = (re.escape(path.rpartition(".")[2]) for path in (one.meant, one.taken))
            stepped = rf"\b{meant}\.step\(|\.step\([^)]*\b{meant}\b"
            if not self._count(stepped) and not self._count(rf"unscale_\([^)]*\b{taken}\b"):
                self._emit(step, one, absent=False)

    def _emit(self, step: cst.CSTNode, one: _Candidate, *, absent: bool) -> None:
        self.machine.statement = one.statement
        self.machine.emit(
            State(), SteppedAnother, step, unscaled=one.unscaled, meant=one.meant, taken=one.taken, absent=absent
        )

    def _is_absent(self, one: _Candidate) -> bool:
        """Whether the program names the stepped attribute once, and assigns and unscales the other one."""
        meant, taken = (re.escape(path.rpartition(".")[2]) for path in (one.meant, one.taken))
        if self._count(rf"\b{taken}\b") != 1 or not self._count(rf"unscale_\([^)]*\b{meant}\b"):
            return False
        return self._count(rf"\.{meant}\b[^=()\n]{{0,200}}=[^=]") > 0

    def _count(self, pattern: str) -> int:
        return sum(len(re.findall(pattern, chunk.text)) for chunk in self.machine.program.chunks)
