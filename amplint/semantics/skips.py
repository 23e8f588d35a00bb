"""Whether a path can know that gradients overflowed, so that a step of theirs was or ought to be skipped."""

from __future__ import annotations

import re

import libcst as cst

from amplint.semantics.events import OptState
from amplint.semantics.machine import Machine
from amplint.semantics.state import State
from amplint.semantics.values import Optimizer
from amplint.source.tree import walk

_TELLS_SKIPPED = re.compile(r"scal|skip|inf|nan|finite|overflow|norm|_run|step_count|success|valid", re.IGNORECASE)


def asks(machine: Machine, state: State, since: cst.CSTNode) -> bool:
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


def overlooked(machine: Machine, state: State, optimizer: Optimizer) -> cst.CSTNode | None:
    """The `unscale_` of the optimizer's gradients that has looked for inf and NaN, if nothing has asked what it saw."""
    for (_, stepped), stage in state.pairs.items():
        if stepped == optimizer.symbol and stage.state is OptState.UNSCALED and stage.node and not stage.unchecked:
            return None if asks(machine, state, stage.node) else stage.node
    return None
