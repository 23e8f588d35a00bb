"""Calls that belong to the beginning or the end of a window: clearing, unscaling, clipping, and steps of all kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.codemods.accumulation.observed import Observed
from amplint.codemods.accumulation.rounds import Place
from amplint.codemods.bindings import bound_paths, called_name
from amplint.codemods.script import Script
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import AVERAGE_CALLED, AVERAGING, COUNTS_STEPS, SAVES_IN_LOOP, SCHEDULER, SCHEDULER_CLASS
from amplint.source import syntax as cst
from amplint.source.tree import walk

_SCALER_METHODS = ("unscale_", "get_scale")
_PARAMETERS = ("parameters", "named_parameters", "state_dict", "buffers")
_CHANGES = ("mul_", "add_", "sub_", "copy_", "lerp_", "clamp_", "div_")


def clears(script: Script, place: Place) -> list[cst.CSTNode]:
    """Where gradients are cleared in `place`, outside of functions that are defined in there."""
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
    """The calls in `place` that advance a learning rate."""
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
    """Where a scheduler is made, as far as this file shows it; None for what is none."""
    while isinstance(scheduler, cst.Subscript):
        scheduler = scheduler.value
    path = dotted(scheduler) or ""
    last = path.rpartition(".")[2]
    made = [
        node.value
        for node in script.nodes
        if isinstance(node, cst.Assign)
        and isinstance(node.value, cst.Call)
        and _ends(bound_paths(node, whole=True), last)
    ]
    known = [call for call in made if SCHEDULER_CLASS.search(dotted(call.func) or "")]
    return known if known or SCHEDULER.search(last) else None


def averages(script: Script, place: Place) -> list[cst.CSTNode]:
    """What changes weights in `place`: moving averages, by the names of what they call, and loops over parameters."""
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
    """Whether `loop` goes over parameters and changes them in place."""
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
    """What belongs to the end of a window in `place`: the steps, and calls on the scaler and on gradients.

    `uses` is where gradients are read or changed, `called` the functions that do.
    """
    found = [one for one in (*uses, *observed.steps, *observed.updates) if script.inside(place.body, one)]
    for node in _inside(script, place):
        if isinstance(node, cst.Call):
            last = called_name(node)
            scaler = isinstance(node.func, cst.Attribute) and node.func.attr.value in _SCALER_METHODS
            found += [node] if scaler or last in called else []
    return found


def counters(script: Script, place: Place) -> list[tuple[cst.AugAssign, str]]:
    """What counts steps by its name, and is counted up in `place`."""
    return [
        (node, path)
        for node in _inside(script, place)
        if isinstance(node, cst.AugAssign)
        and isinstance(node.value, cst.Integer)
        and (path := dotted(node.target)) is not None
        and COUNTS_STEPS.search(path)
    ]


def saves(script: Script, place: Place) -> list[cst.CSTNode]:
    """Where `place` saves a checkpoint, by the name of what it calls."""
    return [
        node
        for node in _inside(script, place)
        if isinstance(node, cst.Call) and SAVES_IN_LOOP.search(dotted(node.func) or "")
    ]


def exits(script: Script, place: Place) -> list[cst.CSTNode]:
    """What leaves `place`, or the rest of one of its rounds, before its time."""
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
    """Whether `node` is the end of the function `place` anyway."""
    return isinstance(place, cst.FunctionDef) and script.statement_of(node) is place.body.body[-1]


def _ends(bound: set[str], last: str) -> bool:
    return any(path.rpartition(".")[2] == last for path in bound)
