"""Gradients that nothing within reach ever clears: every step repeats what the steps before it have used.

A scaler's step divides what earlier rounds have left by the scale once more, so that next to nothing of it remains:
only steps without one are told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from amplint.semantics.accumulation.work import WorkDone
from amplint.semantics.events import Job, NeverCleared
from amplint.semantics.memory.undone import Undone
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Optimizer
from amplint.semantics.words import MAY_CLEAR
from amplint.source import syntax as cst

_COMMENT = re.compile(r"#[^\n]*")


def note(machine: Machine, loop: cst.CSTNode, state: State) -> None:
    """A round of `loop` is over: remember a step in it behind a backward, where nothing has cleared gradients yet."""
    if machine.muted or machine.entered_from is not None or machine.statement is None:
        return
    here = [done for done in state[WorkDone].work if done.loops[-1:] == (loop,) and done.certain]
    jobs = [done.job for done in here]
    if Job.STEP not in jobs or Job.BACKWARD not in jobs or any(done.job is Job.CLEAR for done in state[WorkDone].work):
        return
    tables = [*state.frames.values(), *state.heap.values()]
    optimizers = [value for table in tables for value in table.values() if isinstance(value, Optimizer)]
    if optimizers and all(one.cls and one.loops is not None and loop not in one.loops for one in optimizers):
        step = here[jobs.index(Job.STEP)].node
        if isinstance(step, cst.Call) and isinstance(step.func, cst.Attribute) and not step.args:
            machine[Undone].uncleared.setdefault(step, here[jobs.index(Job.BACKWARD)].node)


def conclude(machine: Machine) -> None:
    """Tell of the steps whose gradients nothing clears."""
    if not machine[Undone].uncleared or machine[Undone].optimizer_escaped or not machine.complete:
        return
    if not any(MAY_CLEAR.search(_COMMENT.sub("", chunk.text)) for chunk in machine.program.chunks):
        for step, backward in machine[Undone].uncleared.items():
            assert isinstance(step.func, cst.Attribute)
            machine.emit(State(), NeverCleared, step, backward=backward, optimizer=step.func.value)


class Clearing(Tracker):
    """Follows gradients that nothing clears."""

    def file_ends(self, starts: Sequence[State]) -> None:
        """Tell of the steps that repeat them."""
        conclude(self.machine)
