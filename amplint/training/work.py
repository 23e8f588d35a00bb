"""Calls at the beginning or the end of a window: clearing, unscaling, clipping, and steps of all kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import AVERAGE_CALLED, AVERAGING, COUNTS_STEPS, SAVES_IN_LOOP, SCHEDULER, SCHEDULER_CLASS
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.bindings import bound_paths, called_name
from amplint.training.observed import Observed
from amplint.training.rounds import Place
from amplint.training.script import Script

_SCALER_METHODS = ("unscale_", "get_scale")
_PARAMETERS = ("parameters", "named_parameters", "state_dict", "buffers")
_CHANGES = ("mul_", "add_", "sub_", "copy_", "lerp_", "clamp_", "div_")


def clears(script: Script, place: Place) -> list[cst.CSTNode]:
    """The nodes that clear gradients in `place`, without nested functions."""
    found: list[cst.CSTNode] = []
    for node in _inside(script, place):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            gradient = isinstance(node.func.value, cst.Attribute) and node.func.value.attr.value in ("grad", "data")
            path = dotted(node.func.value) or ""
            if node.func.attr.value == "zero_grad" or (
                node.func.attr.value == "zero_" and gradient and ".grad" in f".{path}"
            ):
                found.append(node)
        elif isinstance(node, cst.Assign) and dotted(node.value) == "None":
            targets = [one.target for one in node.targets]
            if any(isinstance(one, cst.Attribute) and one.attr.value == "grad" for one in targets):
                found.append(node)
    return found


def schedulers(script: Script, place: Place, observed: Observed) -> list[cst.Call]:
    """The calls in `place` that step a learning rate scheduler."""
    return [
        node
        for node in _inside(script, place)
        if isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in ("step", "step_update")
        and node not in observed.steps
        and constructions(script, node.func.value) is not None
    ]


def constructions(script: Script, scheduler: cst.BaseExpression) -> list[cst.Call] | None:
    """The constructor calls of a scheduler, as far as this file shows them; None if it is no scheduler."""
    while isinstance(scheduler, cst.Subscript):
        scheduler = scheduler.value
    path = dotted(scheduler) or ""
    last = path.rpartition(".")[2]
    made = [
        node.value
        for node in script.nodes
        if isinstance(node, cst.Assign)
        and isinstance(node.value, cst.Call)
        and _binds_last_name(bound_paths(node, whole=True), last)
    ]
    known = [call for call in made if SCHEDULER_CLASS.search(dotted(call.func) or "")]
    return known if known or SCHEDULER.search(last) else None


def averages(script: Script, place: Place) -> list[cst.CSTNode]:
    """The updates of weights in `place`: moving averages, by the names of callees, and loops over parameters."""
    found: list[cst.CSTNode] = []
    for node in _inside(script, place):
        name = (dotted(node.func) or "") if isinstance(node, cst.Call) else ""
        last = name.rpartition(".")[2]
        moves = AVERAGING.search(last) and any(AVERAGE_CALLED.search(part) for part in name.split("."))
        if isinstance(node, cst.Call) and isinstance(script.source.parent(node), cst.Expr):
            found += [node] if moves or AVERAGE_CALLED.search(last) else []
        elif isinstance(node, cst.For) and _changes_weights(node):
            found.append(node)
    return found


def _changes_weights(loop: cst.For) -> bool:
    """Whether `loop` iterates over parameters and updates them in place."""
    named = {node.value for node in walk(loop.iter) if isinstance(node, cst.Name)}
    methods = {
        node.func.attr.value
        for node in walk(loop.body)
        if isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and ".grad." not in f"{dotted(node.func)}."
    }
    return not named.isdisjoint(_PARAMETERS) and not methods.isdisjoint(_CHANGES)


def ending(
    script: Script, place: Place, observed: Observed, uses: Sequence[cst.CSTNode], called: set[str]
) -> list[cst.CSTNode]:
    """The nodes at the end of a window in `place`: steps, and calls on the scaler and on gradients.

    `uses` are the reads and updates of gradients, `called` the functions that do so.
    """
    found = [one for one in (*uses, *observed.steps, *observed.updates) if script.inside(place.body, one)]
    for node in _inside(script, place):
        if isinstance(node, cst.Call):
            last = called_name(node)
            scaler = isinstance(node.func, cst.Attribute) and node.func.attr.value in _SCALER_METHODS
            found += [node] if scaler or last in called else []
    return found


def counters(script: Script, place: Place) -> list[tuple[cst.AugAssign, str]]:
    """The counters of steps, by name, incremented in `place`."""
    return [
        (node, path)
        for node in _inside(script, place)
        if isinstance(node, cst.AugAssign)
        and isinstance(node.value, cst.Integer)
        and (path := dotted(node.target)) is not None
        and COUNTS_STEPS.search(path)
    ]


def saves(script: Script, place: Place) -> list[cst.CSTNode]:
    """The calls in `place` that save a checkpoint, by the callee's name."""
    return [
        node
        for node in _inside(script, place)
        if isinstance(node, cst.Call) and SAVES_IN_LOOP.search(dotted(node.func) or "")
    ]


def exits(script: Script, place: Place) -> list[cst.CSTNode]:
    """The early exits from `place`, or from one of its iterations."""
    return [
        node
        for node in _inside(script, place)
        if (isinstance(node, cst.Return) and not _is_last(script, place, node))
        or (isinstance(node, (cst.Break, cst.Continue)) and script.loop_of(node) is place)
    ]


def _inside(script: Script, place: Place) -> Iterator[cst.CSTNode]:
    function = script.function_of(place.body)
    return (node for node in walk(place.body) if script.function_of(node) is function)


def _is_last(script: Script, place: Place, node: cst.Return) -> bool:
    """Whether `node` is the last statement of the function `place`."""
    return isinstance(place, cst.FunctionDef) and script.statement_of(node) is place.body.body[-1]


def _binds_last_name(bound: set[str], last: str) -> bool:
    return any(path.rpartition(".")[2] == last for path in bound)
