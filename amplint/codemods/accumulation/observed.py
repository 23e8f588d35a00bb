"""Backward passes, steps and optimizers of a script, as far as accumulation is concerned."""

from __future__ import annotations

from dataclasses import field

from amplint.codemods.calls import Calls
from amplint.codemods.interpretation import Interpretation
from amplint.codemods.refusal import Refusal
from amplint.codemods.script import Script
from amplint.records import dataclass
from amplint.semantics.events import (
    Accumulation,
    Backward,
    Event,
    ManagedBackward,
    OptimizerStep,
    ScalerStep,
    ScalerUpdate,
)
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SPEAKS_OF_OPTIMIZER
from amplint.source import syntax as cst
from amplint.source.tree import walk

_CONDITIONS = (cst.If, cst.IfExp, cst.While, cst.Try, cst.Match)
_KINDS = (Accumulation, Backward, ManagedBackward, OptimizerStep, ScalerStep, ScalerUpdate)


@dataclass
class Observed:
    """The relevant calls, all of them in the file itself.

    `steps` are the steps of `optimizers`, by a scaler or not, or calls of functions that step, `updates` those of the
    scaler's scale, and `windows` the loops and functions that accumulate already. Unreachable code, such as a branch on
    a constant, is included by the names of its objects.
    """

    calls: Calls
    backwards: list[cst.Call] = field(default_factory=list)
    steps: list[cst.Call] = field(default_factory=list)
    updates: list[cst.CSTNode] = field(default_factory=list)
    windows: set[cst.CSTNode] = field(default_factory=set)
    optimizers: set[str] = field(default_factory=set)


def observe(script: Script) -> Observed:
    """Interpret the file. Raises Refusal if part of it is unseen, and SourceError."""
    interpretation = Interpretation(script)
    found = Observed(interpretation.calls)
    interpretation.follow(lambda event: _record_event(found, interpretation, event), *_KINDS)
    for call in script.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
            _add_unreached(found, call, call.func)
    for call in found.calls.ending("step"):
        if not isinstance(call.func, cst.Attribute) or found.calls.targets(call):
            continue
        mentioned = {dotted(call.func.value) or "", *(dotted(one.value) or "" for one in call.args)}
        named = any(SPEAKS_OF_OPTIMIZER.search(path.rpartition(".")[2]) for path in mentioned)
        if named or mentioned & found.optimizers:
            _add(found.steps, call)
    for step in [*found.steps]:
        _lift(script, found, step)
    return found


def _lift(script: Script, found: Observed, step: cst.Call) -> None:
    """Replace `step` by the calls of its function, if that steps and leaves the backward pass to its callers."""
    function = script.function_of(step)
    training = {script.function_of(one) for one in found.backwards}
    if function is None or function in training:
        return
    callers = found.calls.callers(function) if _always(script, function, step) else None
    if callers and all(script.function_of(call) in training for call in callers):
        found.steps.remove(step)
        for call in callers:
            _add(found.steps, call)


def _always(script: Script, function: cst.FunctionDef, step: cst.Call) -> bool:
    """Whether every call of `function` reaches `step`."""
    around = [node for node in script.source.ancestors(step) if script.inside(function.body, node)]
    leaves = any(isinstance(node, cst.Return) for node in walk(function.body))
    return not leaves and not any(isinstance(node, _CONDITIONS) for node in around)


def _add_unreached(found: Observed, call: cst.Call, func: cst.Attribute) -> None:
    owner = (dotted(func.value) or "").partition(".")
    if owner[0] in ("self", "ctx", "cls") and not owner[2]:
        return
    if call not in found.backwards:
        if any(argument.keyword is None for argument in call.args):
            raise Refusal(call, "this backward pass could not be followed")
        if found.backwards:
            found.backwards.append(call)


def _record_event(found: Observed, interpretation: Interpretation, event: Event) -> None:
    if isinstance(event, ManagedBackward):
        interpretation.refuse_manager(event, "runs the backward pass; ask it to accumulate gradients")
    if isinstance(event, Accumulation):
        found.windows.add(event.loop)
    elif isinstance(event, Backward):
        _add(found.backwards, interpretation.backward(event))
    elif isinstance(event, (OptimizerStep, ScalerStep)):
        interpretation.check_step(event, "makes and uses gradients in one call")
        found.optimizers |= {path for path in [dotted(event.optimizer_node)] if path}
        if isinstance(event.node, cst.Call):
            _add(found.steps, event.node)
    elif isinstance(event, ScalerUpdate) and interpretation.here(event) is event.node:
        found.updates.append(event.node)


def _add(calls: list[cst.Call], call: cst.Call) -> None:
    if call not in calls:
        calls.append(call)
