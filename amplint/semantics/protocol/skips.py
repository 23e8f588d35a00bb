"""A path's knowledge of overflowed gradients, whose step was or should be skipped."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.events import OptState
from amplint.semantics.memory.progress import Progress
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Optimizer
from amplint.semantics.words import SCALER_ITSELF, TELLS_SKIPPED
from amplint.source import syntax as cst
from amplint.source.tree import walk


def reads_skips(machine: Machine, state: State, since: cst.CSTNode) -> bool:
    """Whether the path decided, since the call `since`, a condition that depends on skipped steps."""
    trail = state.trail
    while trail is not None and trail.step[0] is not since:
        asked = any(machine.symbols.involves(symbol, "scale of") for symbol in trail.tested)
        if trail.side is not None and (asked or any(TELLS_SKIPPED.search(name) for name in _names(trail.step[0]))):
            return True
        trail = trail.before
    return False


def _names(condition: cst.CSTNode) -> Iterator[str]:
    """The names in a condition, except those tested only for existence, as in `if scaler is not None`."""
    if isinstance(condition, cst.BooleanOperation):
        yield from _names(condition.left)
        yield from _names(condition.right)
    elif isinstance(condition, cst.UnaryOperation):
        yield from _names(condition.expression)
    elif not _tests_presence(condition):
        yield from (inner.value for inner in walk(condition) if isinstance(inner, cst.Name))


def _tests_presence(condition: cst.CSTNode) -> bool:
    if isinstance(condition, cst.Comparison):
        compared = condition.comparisons[0]
        none = isinstance(compared.comparator, cst.Name) and compared.comparator.value == "None"
        return none and isinstance(compared.operator, (cst.Is, cst.IsNot))
    return SCALER_ITSELF.search(dotted(condition) or "") is not None


def overlooked(machine: Machine, state: State, optimizer: Optimizer) -> cst.CSTNode | None:
    """The `unscale_` that checked the optimizer's gradients for inf and NaN, if no condition has used the result."""
    for (_, stepped), stage in state[Progress].pairs.items():
        if stepped == optimizer.symbol and stage.state is OptState.UNSCALED and stage.node and not stage.unchecked:
            return None if reads_skips(machine, state, stage.node) else stage.node
    return None
