"""Variables that a loop increments: their value in one iteration says nothing about the next."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.accumulation.boundaries import COUNTER
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Unknown
from amplint.source import syntax as cst
from amplint.source.tree import every


def counters(machine: Machine, loop: cst.For | cst.While) -> frozenset[str]:
    """The access paths that `loop` increments or advances, and that a remainder or a comparison in it tests."""
    found = machine[Rhythm].counted.get(loop)
    if found is None:
        raised: set[str] = set()
        looked_at: set[str] = set()
        moved: set[str] = set()
        marks: set[str] = set()
        for node in every(loop, cst.AugAssign, cst.Assign, cst.BinaryOperation, cst.Comparison):
            if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.AddAssign):
                raised |= {path for path in [dotted(node.target)] if path and isinstance(node.value, cst.Integer)}
            elif isinstance(node, cst.Assign) and isinstance(node.value, cst.Name):
                moved |= {path for path in [dotted(node.targets[0].target)] if path}
            elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract):
                marks |= {path for path in [dotted(node.right)] if path}
            elif isinstance(node, cst.Comparison) or (
                isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)
            ):
                looked_at |= set(_paths(node))
        found = machine[Rhythm].counted[loop] = frozenset((raised | (moved & marks)) & looked_at)
    return found


def _paths(node: cst.CSTNode) -> Iterator[str]:
    for inner in every(node, cst.Name, cst.Attribute):
        path = dotted(inner)
        if path:
            yield path


def begin_round(machine: Machine, state: State, loop: cst.For | cst.While, first: bool) -> None:
    """Make the counters of `loop` unknown in the iteration that begins; the `first` records their initial values."""
    for path in counters(machine, loop):
        owner, _, name = path.rpartition(".")
        symbol = -1
        if owner:
            value = machine.lookup(state, owner)
            symbol = symbol_of(machine, value) if value is not None else -1
            before = state.heap.get(symbol, {}).get(name)
        else:
            before = state.frames[state.frame].get(name)
        number = before.value if isinstance(before, Const) and type(before.value) is int else None
        key = (id(loop), path)
        if first:
            if number is None:
                machine[Rhythm].starts.pop(key, None)
                continue
            machine[Rhythm].starts[key] = number
        elif key not in machine[Rhythm].starts:
            continue
        counter = Unknown(
            machine.symbols.intern(COUNTER, id(loop), path, state.iteration[-1], time=state.iteration[-1])
        )
        if owner:
            state.set_attribute(symbol, name, counter)
        else:
            state.bind(state.frame, name, counter)
