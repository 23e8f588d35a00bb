"""A path's knowledge of overflowed gradients, whose step was or should be skipped."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.events import OptState
from amplint.semantics.memory.progress import Progress
from amplint.semantics.protocol.cancelled import FINITENESS_TESTS
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.symbols import Symbols
from amplint.semantics.values.values import FALSE, TRUE, Optimizer
from amplint.semantics.words import SCALER_ITSELF, TELLS_SKIPPED
from amplint.source import syntax as cst
from amplint.source.tree import walk

_NORM = "norm of gradients"
_SAME_TRUTH = frozenset({"number", "all", "bool", "item"})
"""Functions and methods whose results are as true as what they are given."""


def norm_of_gradients(machine: Machine) -> int:
    """The symbol of a norm that PyTorch computes of gradients."""
    return machine.symbols.fresh(_NORM)


def knows_finite(machine: Machine, state: State) -> bool:
    """Whether the path has found the norm of this iteration's gradients finite, with which no step is skipped."""
    excluded = set[str]()
    for fact, value in state.facts.items():
        test = _test_of_norm(machine.symbols, fact) if isinstance(fact, int) and value in (TRUE, FALSE) else ""
        if test == "isfinite" and value == TRUE:
            return True
        excluded |= {test} if value == FALSE else set()
    return {"isnan", "isinf"} <= excluded


def _test_of_norm(symbols: Symbols, symbol: int) -> str:
    """The function or method that tells whether a norm of gradients is finite, if `symbol` is what it returns."""
    while (found := _operation(symbols, symbol))[0] in _SAME_TRUTH:
        symbol = found[1]
    name = found[0] if found[0] in FINITENESS_TESTS else ""
    return name if name and any(symbols.key(one)[2:] == (_NORM,) for one in symbols.derivation(symbol)) else ""


def _operation(symbols: Symbols, symbol: int) -> tuple[str, int]:
    """The name of the function or method that returned `symbol`, and what it was given last; itself without any."""
    key, parts, method = symbols.key(symbol), symbols.parts(symbol), symbols.method(symbol)
    if method is not None:
        return method[0], method[1][0]
    return (str(key[1 if key[0] == "call" else 0]).rpartition(".")[2], parts[-1]) if parts else ("", symbol)


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
