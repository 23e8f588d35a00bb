"""The calls that touch gradients on one path through one iteration."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from amplint.semantics.accumulation.boundaries import boundary
from amplint.semantics.accumulation.work import WorkDone
from amplint.semantics.events import Job, Work
from amplint.semantics.memory.rhythm import Boundary, Rhythm
from amplint.semantics.python.machine import Machine
from amplint.semantics.values.state import State
from amplint.source import syntax as cst


class Round:
    """One path through one iteration; gradients cleared before the first backward pass of the `first` one are older."""

    def __init__(self, state: State, depth: int, first: bool) -> None:
        self.state = state
        self.depth = depth
        now = state.iteration[:depth]
        work = [done for done in state[WorkDone].work if done.iteration[:depth] == now]
        ran = next((place for place, done in enumerate(work) if done.job is Job.BACKWARD), len(work))
        self.work = tuple(
            replace(done, in_vain=True)
            if first and place < ran and done.job is Job.CLEAR and len(done.loops) == depth
            else done
            for place, done in enumerate(work)
        )
        self._asked: dict[cst.BaseExpression, tuple[bool, Boundary]] | None = None

    def of(self, *jobs: Job) -> list[Work]:
        """The calls that do one of these jobs."""
        return [done for done in self.work if done.job in jobs]

    def has(self, job: Job) -> bool:
        """Whether a call does this job."""
        return any(done.job is job for done in self.work)

    @property
    def steps(self) -> bool:
        """Whether a step is taken on each path that joined here."""
        return any(done.job is Job.STEP and done.certain for done in self.work)

    @property
    def before_backward(self) -> set[cst.CSTNode]:
        """The calls before the first backward pass."""
        return {done.node for done in takewhile(lambda done: done.job is not Job.BACKWARD, self.work)}

    def asked(self, machine: Machine) -> dict[cst.BaseExpression, tuple[bool, Boundary]]:
        """The conditions about windows that this path decided, and whether they end one here."""
        if self._asked is None:
            self._asked = {}
            for symbol, fact in self.state.facts.items():
                found = boundary(machine, symbol) if isinstance(symbol, int) else None
                node = machine[Rhythm].spelled.get(symbol) if isinstance(symbol, int) else None
                here = machine.loops in machine[Rhythm].asked.get(symbol, ())  # type: ignore[arg-type]
                if here and found is not None and node is not None:
                    self._asked[node] = (bool(fact.value) is found.holds, found)
        return self._asked

    def suppose(self, machine: Machine, guard: cst.BaseExpression, found: Boundary) -> None:
        """Take `guard` to end a window on joined paths whose every step is taken where one ends."""
        steps = self.of(Job.STEP)
        if steps and guard not in self.asked(machine) and all(done.closes and not done.mixed for done in steps):
            self.asked(machine)[guard] = (True, found)

    def ends(self, machine: Machine, guard: cst.BaseExpression) -> bool | None:
        """Whether `guard` ends a window on this path, None if it was not tested or joined paths differ."""
        found = self.asked(machine).get(guard)
        return found[0] if found is not None else None
