"""Steps and backward passes of a script that belong to the iterations of a loop, reached or not."""

from __future__ import annotations

from amplint.codemods.refusal import Refusal
from amplint.codemods.script import Script
from amplint.codemods.training import observed
from amplint.codemods.training.observed import Goal, Observed
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SPEAKS_OF_OPTIMIZER
from amplint.source import syntax as cst
from amplint.source.tree import walk

_CONDITIONS = (cst.If, cst.IfExp, cst.While, cst.Try, cst.Match)


def observe(script: Script) -> Observed:
    """Interpret the file. Raises Refusal if part of it is unseen, and SourceError.

    The steps include calls of functions that step. Unreachable code, such as a branch on a constant, is included by the
    names of its objects.
    """
    found = observed.observe(script, Goal.WINDOWS)
    for call in script.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
            _add_unreached(found, call, call.func)
    optimizers = {dotted(optimizer) for optimizer in found.steps.values()} - {None}
    for call in found.calls.ending("step"):
        if not isinstance(call.func, cst.Attribute) or found.calls.targets(call):
            continue
        mentioned = {dotted(call.func.value) or "", *(dotted(one.value) or "" for one in call.args)}
        named = any(SPEAKS_OF_OPTIMIZER.search(path.rpartition(".")[2]) for path in mentioned)
        if named or mentioned & optimizers:
            found.steps.setdefault(call, call.func.value)
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
        optimizer = found.steps.pop(step)
        for call in callers:
            found.steps.setdefault(call, optimizer)


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
