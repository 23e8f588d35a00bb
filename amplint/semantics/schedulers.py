"""Learning-rate schedulers that advance once per step, and whether they wait for a step that the scaler skipped."""

from __future__ import annotations

import re

import libcst as cst

from amplint.semantics.events import OptState
from amplint.semantics.machine import Machine
from amplint.semantics.scale_events import SchedulerStep
from amplint.semantics.state import State
from amplint.semantics.values import Value
from amplint.source.tree import walk

_SCHEDULER = re.compile(r"sched", re.IGNORECASE)
_TELLS_SKIPPED = re.compile(r"scal|skip|inf|nan|overflow|norm|_run|step_count|success|valid", re.IGNORECASE)


def step(machine: Machine, state: State, node: cst.Call, owner: Value) -> None:
    """`owner.step()` of something that is no optimizer and no scaler."""
    machine.contacts += 1
    if not isinstance(node.func, cst.Attribute) or not _is_scheduler(machine, node.func.value, owner):
        return
    latest = _stepped(state)
    if latest is not None:
        scaler, call = latest
        machine.emit(
            state, SchedulerStep, node, call=node, scaler=scaler, stepped=call, waits=_asks(machine, state, call)
        )


def _is_scheduler(machine: Machine, spelled: cst.BaseExpression, owner: Value) -> bool:
    while isinstance(spelled, cst.Subscript):
        spelled = spelled.value
    name = spelled.attr if isinstance(spelled, cst.Attribute) else spelled
    if isinstance(name, cst.Name) and _SCHEDULER.search(name.value):
        return True
    kind, *details = machine.symbols.key(getattr(owner, "symbol", machine.fresh()))
    return kind == "call" and str(details[0]).startswith("torch.optim.lr_scheduler.")


def _stepped(state: State) -> tuple[int, cst.CSTNode] | None:
    """The scaler that has stepped an optimizer in this very iteration, and the call that did, or its `update`."""
    for (scaler, _), stage in state.pairs.items():
        if stage.state is OptState.STEPPED and stage.node is not None and stage.iteration == state.iteration:
            return scaler, stage.node
    for scaler, known in state.scalers.items():
        if known.updated is not None and known.iteration == state.iteration:
            return scaler, known.updated
    return None


def _asks(machine: Machine, state: State, since: cst.CSTNode) -> bool:
    """Whether the path has taken a side since the call `since` of a condition that knows about skipped steps."""
    for fact in state.facts:
        symbol = fact if isinstance(fact, int) else fact[1]
        if machine.symbols.involves(symbol, "scale of"):
            return True
    trail = state.trail
    while trail is not None and trail.step[0] is not since:
        if trail.branch:
            names = (inner.value for inner in walk(trail.step[0]) if isinstance(inner, cst.Name))
            if any(_TELLS_SKIPPED.search(name) for name in names):
                return True
        trail = trail.before
    return False
