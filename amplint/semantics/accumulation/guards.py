"""Conditions that end windows: their alternatives, their place in the loop, and their remainders."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.rhythm import Boundary, Rhythm
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import walk


def follows_all_steps(machine: Machine, loop: cst.CSTNode, guard: cst.CSTNode, steps: Sequence[cst.CSTNode]) -> bool:
    """Whether a condition follows all steps of a loop, so that it decides something else.

    What runs in a called function is where the loop calls it.
    """
    order = {node: place for place, node in enumerate(walk(loop))}
    led = {guard, *(site for sites in machine[Rhythm].sites.get(guard, ()) for site in sites)}
    asked = [order[node] for node in led if node in order]
    sites = machine[CallIndex].sites
    ran = [[order[node] for node in sites.get(step, (step,)) if node in order] for step in steps]
    return bool(asked) and all(places and max(places) < min(asked) for places in ran)


def is_alternative(machine: Machine, guard: cst.CSTNode) -> bool:
    """Whether another condition, joined by `or`, ends windows where `guard` does not."""
    source = machine.program.source_of(guard)
    around = next(iter(source.ancestors(guard)), None) if source is not None else None
    return isinstance(around, cst.BooleanOperation) and isinstance(around.operator, cst.Or)


def guarded_nodes(machine: Machine, guard: cst.CSTNode | None) -> frozenset[cst.CSTNode]:
    """What runs only where a condition holds that `guard` is an alternative of."""
    source = machine.program.source_of(guard) if guard is not None and is_alternative(machine, guard) else None
    if guard is None or source is None:
        return frozenset()
    statement = next((one for one in source.ancestors(guard) if not isinstance(one, cst.BooleanOperation)), None)
    return frozenset(walk(statement.body)) if isinstance(statement, cst.If) else frozenset()


def remainder_in(machine: Machine, found: Boundary, guard: cst.BaseExpression) -> cst.BinaryOperation | None:
    """The expressions for the counter and the number of micro-batches of a window, in `guard` if it has them."""
    spelled = machine[Rhythm].spelled.get(found.modulo) if found.modulo is not None else None
    if not isinstance(spelled, cst.BinaryOperation):
        return None
    written = (one for one in walk(guard) if isinstance(one, cst.BinaryOperation))
    return next((one for one in written if _is_alike(one, spelled)), spelled)


def _is_alike(one: cst.BinaryOperation, other: cst.BinaryOperation) -> bool:
    """Whether two remainders of variables are written alike."""
    sides = [(dotted(each.left), dotted(each.right)) for each in (one, other)]
    return type(one.operator) is type(other.operator) and None not in sides[0] and sides[0] == sides[1]
