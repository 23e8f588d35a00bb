"""Reads of the loss scale for logging only."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.events import OptState, ScaleLogged
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.progress import Progress
from amplint.semantics.python.machine import Machine
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Scaler
from amplint.source import syntax as cst
from amplint.source.tree import every

_COMPUTES = (cst.BinaryOperation, cst.Comparison, cst.BooleanOperation, cst.IfExp)


def read(machine: Machine, state: State, node: cst.Call, scaler: Scaler) -> None:
    """`scaler.get_scale()`."""
    if (
        _has_stepped_in_iteration(state, scaler)
        and not _assumes_about_iteration(machine, state)
        and _is_logged(machine, node)
        and not _has_waited(machine, node)
    ):
        machine.emit(state, ScaleLogged, node, scaler=scaler)


def _has_stepped_in_iteration(state: State, scaler: Scaler) -> bool:
    """Whether the scaler stepped an optimizer, or updated, in this loop iteration."""
    if not state.iteration:
        return False
    known = state[Progress].scalers.get(scaler.symbol)
    if known is not None and known.updated is not None and known.iteration == state.iteration:
        return True
    stages = (stage for (symbol, _), stage in state[Progress].pairs.items() if symbol == scaler.symbol)
    return any(stage.state is OptState.STEPPED and stage.iteration == state.iteration for stage in stages)


def _assumes_about_iteration(machine: Machine, state: State) -> bool:
    """Whether the path assumes a fact about this iteration, such as a multiple of its number."""
    symbols = (fact if isinstance(fact, int) else fact[1] for fact in state.facts)
    return any(machine.symbols.time(symbol) >= state.iteration[-1] for symbol in symbols)


def _is_logged(machine: Machine, node: cst.Call) -> bool:
    """Whether the value is passed unchanged to a call whose result is discarded, or stored in an entry."""
    around = list(_around(machine, node))
    small = around[-1] if around else None
    if any(isinstance(above, _COMPUTES) for above in around):
        return False
    if isinstance(small, cst.Expr):
        return any(isinstance(above, (cst.Call, cst.FormattedString)) for above in around)
    return isinstance(small, cst.Assign) and all(isinstance(t.target, cst.Subscript) for t in small.targets)


def _has_waited(machine: Machine, node: cst.Call) -> bool:
    """Whether a statement between the step and the read, in this iteration, has waited for the GPU already."""
    source = machine.program.source_of(node)
    protocol = frozenset[cst.CSTNode]().union(*machine[CallIndex].sites.values())
    inner: cst.CSTNode = node
    for above in source.ancestors(node) if source is not None else ():
        if isinstance(above, cst.IndentedBlock):
            for statement in reversed(above.body[: above.body.index(inner)]):
                calls = list(every(statement, cst.Call))
                if isinstance(statement, cst.SimpleStatementLine) and any(map(_waits, calls)):
                    return True
                if not protocol.isdisjoint(calls):
                    return False
        if isinstance(above, (cst.For, cst.While, cst.FunctionDef)):
            return False
        inner = above
    return False


def _waits(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in ("item", "synchronize")


def _around(machine: Machine, node: cst.Call) -> Iterator[cst.CSTNode]:
    """The ancestors of `node` up to its statement."""
    source = machine.program.source_of(node)
    for above in source.ancestors(node) if source is not None else ():
        yield above
        if isinstance(above, cst.BaseSmallStatement):
            return
