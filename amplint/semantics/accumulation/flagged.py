"""Functions that unscale gradients in every call, and step only if a flag of their caller is set.

Two consecutive calls without a step unscale the same gradients twice, which PyTorch rejects.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from amplint.semantics.accumulation.work import WorkDone
from amplint.semantics.events import Accumulation, Job, OptState, Work
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.memory.undone import Obligations
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, TRUE, Const
from amplint.source import syntax as cst
from amplint.source.tree import every


def compare(machine: Machine, function: cst.FunctionDef, states: Sequence[State]) -> None:
    """Compare the paths on which a call of `function` by unseen code ended."""
    began = machine[Obligations].began
    if began is None or machine.muted:
        return
    left = [(state, done) for state in states if (done := _left_unscaled(machine, state, began)) is not None]
    stepped = [state for state in states if _has(state, Job.STEP)]
    for state, done in left:
        for symbol, side in _flags(machine, state):
            taken = [one for one in stepped if one.facts.get(symbol) == _other(side)]
            if not taken or any(one.facts.get(symbol) == side for one in stepped):
                continue
            guard = machine[Rhythm].spelled.get(symbol)
            if guard is None or not _updates_alone(machine, function, done):
                continue
            machine.emit(
                taken[0], Accumulation, guard, loop=function, guard=guard, every=None, remainder=None, backwards=(),
                inside=(done,), closing=tuple(taken[0][WorkDone].work), counted=False, supposed=True,
            )  # fmt: skip
            return


def _left_unscaled(machine: Machine, state: State, began: int) -> Work | None:
    """The call that unscaled new gradients of a scaler older than the running call, which ends without a step."""
    if _has(state, Job.STEP) or _has(state, Job.UPDATE) or not _has(state, Job.BACKWARD):
        return None
    open_ = {
        stage.node
        for (scaler, optimizer), stage in state[Progress].pairs.items()
        if stage.state is OptState.UNSCALED and optimizer != ANY_OPTIMIZER and machine.symbols.time(scaler) < began
    }
    return next((done for done in state[WorkDone].work if done.job is Job.UNSCALE and done.node in open_), None)


def _has(state: State, job: Job) -> bool:
    return any(done.job is job for done in state[WorkDone].work)


def _flags(machine: Machine, state: State) -> list[tuple[int, Const]]:
    """The parameters of functions that the path assumes true or false."""
    return [
        (symbol, fact)
        for symbol, fact in state.facts.items()
        if isinstance(symbol, int) and fact in (TRUE, FALSE) and machine.symbols.key(symbol)[0] == "parameter"
    ]


def _other(side: Const) -> Const:
    return FALSE if side == TRUE else TRUE


def _updates_alone(machine: Machine, function: cst.FunctionDef, done: Work) -> bool:
    """Whether nothing else in the program can update the scaler between two calls."""
    call = done.node
    scaler = dotted(call.func.value) if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
    if scaler is None:
        return False
    updates = re.compile(rf"\b{re.escape(scaler.rpartition('.')[2])}\.(?:update|step)\(")
    own = sum(
        isinstance(inner.func, cst.Attribute) and updates.search(f"{dotted(inner.func) or ''}(") is not None
        for inner in every(function, cst.Call)
    )
    return own > 0 and own == sum(len(updates.findall(chunk.text)) for chunk in machine.program.chunks)
