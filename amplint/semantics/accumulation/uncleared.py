"""Gradients that are never cleared: every step applies those of all earlier steps again.

A scaler's step divides the gradients of earlier iterations by the scale once more, so that little remains of them until
they overflow: inf stays inf, and every later step is skipped.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TypeGuard

from amplint.regex import regex
from amplint.semantics.accumulation.work import WorkDone
from amplint.semantics.events import Job, NeverCleared, Work
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.undone import Obligations
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Instance, Optimizer, Unknown, Value
from amplint.semantics.words import MAY_CLEAR
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import every, target_names

_COMMENT = regex(r"#[^\n]*")
_DEFINITION = regex(r"^([ \t]*)(?:async )?def (\w+)\(", re.MULTILINE)


def note(machine: Machine, loop: cst.CSTNode, state: State) -> None:
    """Record a step with gradients that were never cleared, at the end of an iteration of `loop`."""
    if machine.muted or machine.entered_from is not None or machine.statement is None:
        return
    work = [done for done in state[WorkDone].work if loop in done.loops and done.certain]
    step = next((done.node for done in work if done.job is Job.STEP and done.loops[-1] is loop), None)
    backward = next((done.node for done in work if done.job is Job.BACKWARD), None)
    cleared = [done for done in state[WorkDone].work if done.job is Job.CLEAR]
    if not all(_is_outside(machine, one, loop) for one in cleared):
        machine[Obligations].clearing.add(loop)
        return
    if backward is None or not isinstance(step, cst.Call) or not isinstance(step.func, cst.Attribute):
        return
    tables = [*state.frames.values(), *state.heap.values()]
    optimizers = [value for table in tables for value in table.values() if isinstance(value, Optimizer)]
    scaled = _steps_through_scaler(machine, step)
    if scaled and not optimizers:
        older = _is_given(machine, state, step.args[0].value, loop)
    else:
        older = bool(optimizers) and all(_is_older(machine, one, loop, scaled) for one in optimizers)
    if older and (scaled or not step.args):
        machine[Obligations].uncleared.setdefault(step, (backward, loop, tuple(one.node for one in cleared)))


def _is_outside(machine: Machine, clear: Work, loop: cst.CSTNode) -> bool:
    """Whether a call clears gradients outside of `loop`, or in its first round alone."""
    if loop not in clear.loops:
        return True
    source = machine.program.source_of(clear.node)
    above = source.ancestors(clear.node) if source is not None and isinstance(loop, cst.For) else ()
    within = list(itertools.takewhile(lambda one: one is not loop, above))
    path = {clear.node, *within}
    return isinstance(loop, cst.For) and any(
        isinstance(one, cst.If) and one.body in path and _holds_first(one.test, loop) for one in within
    )


def _holds_first(test: cst.BaseExpression, loop: cst.For) -> bool:
    """Whether a condition holds in the first round of an enumerating loop alone."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _holds_first(test.left, loop) or _holds_first(test.right, loop)
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or not isinstance(test.left, cst.Name):
        return False
    target, compared = loop.target, test.comparisons[0]
    counter = target.elements[0].value if isinstance(target, cst.Tuple) and target.elements else None
    counts = isinstance(loop.iter, cst.Call) and dotted(loop.iter.func) == "enumerate" and len(loop.iter.args) == 1
    zero = isinstance(compared.comparator, cst.Integer) and compared.comparator.value == "0"
    equal = isinstance(compared.operator, cst.Equal)
    return counts and zero and equal and isinstance(counter, cst.Name) and counter.value == test.left.value


def _is_older(machine: Machine, optimizer: Optimizer, loop: cst.CSTNode, scaled: bool) -> bool:
    """Whether an optimizer is certainly made outside of `loop`, and known unless a scaler steps it."""
    if scaled and not optimizer.cls and machine.symbols.key(optimizer.symbol)[0] == "parameter":
        return True
    return (scaled or bool(optimizer.cls)) and optimizer.loops is not None and loop not in optimizer.loops


def _is_given(machine: Machine, state: State, optimizer: cst.BaseExpression, loop: cst.CSTNode) -> bool:
    """Whether a variable, or an attribute of an object in sight, holds an optimizer that unseen code made.

    It is none that `loop` binds.
    """
    path = dotted(optimizer)
    if path is None or not isinstance(_held(machine, state, path), Unknown):
        return False
    targets = [target.target for assignment in every(loop, cst.Assign) for target in assignment.targets]
    targets += [inner.target for inner in every(loop, cst.For)]
    bound = {dotted(one) for target in targets for one in (target, *every(target, cst.Attribute))}
    bound |= {name for target in targets for name in target_names(target)}
    return path not in bound and path.partition(".")[0] not in bound


def _held(machine: Machine, state: State, path: str) -> Value | None:
    """The value of a variable, or of an attribute that was set in sight."""
    name, _, attribute = path.partition(".")
    owner = machine.lookup(state, name)
    if not attribute:
        return owner
    return state.heap.get(owner.symbol, {}).get(attribute) if isinstance(owner, Instance) else None


def compare(machine: Machine, loop: cst.CSTNode, states: Sequence[State]) -> None:
    """Record the scaler's steps on paths through an iteration that clear nothing, and what clears on its others."""
    if machine.muted or machine.entered_from is not None or not isinstance(loop, (cst.For, cst.While)):
        return
    obligations = machine[Obligations]
    for state in states:
        work = [done for done in state[WorkDone].work if done.iteration == state.iteration]
        cleared = next((done.node for done in work if done.job is Job.CLEAR), None)
        steps = [done.node for done in work if done.job is Job.STEP]
        if cleared is not None:
            for whose in filter(None, map(_optimizer, steps)):
                obligations.clearing_paths.setdefault((loop, whose), cleared)
        scaled = [done.node for done in work if done.job is Job.STEP and done.certain and _by_scaler(done.node)]
        backwards = [done.node for done in work if done.job is Job.BACKWARD and done.certain]
        if not scaled or not backwards or len(scaled) > 1:
            continue
        if any(done.job in (Job.CLEAR, Job.RESCALE) for done in work):
            obligations.cleared.add(scaled[0])
        obligations.uncleared_steps.setdefault(scaled[0], (backwards[0], loop))


def _steps_through_scaler(machine: Machine, step: cst.Call) -> bool:
    """Whether the only argument of a call is the optimizer that a scaler steps."""
    stepped = [node for nodes in machine[CallIndex].index.optimizers.values() for node in nodes]
    return len(step.args) == 1 and any(node is step.args[0].value for node in stepped)


def _by_scaler(step: cst.CSTNode) -> TypeGuard[cst.Call]:
    return isinstance(step, cst.Call) and isinstance(step.func, cst.Attribute) and len(step.args) == 1


def _optimizer(step: cst.CSTNode) -> str | None:
    """The expression of the optimizer that a call steps."""
    if not isinstance(step, cst.Call) or not isinstance(step.func, cst.Attribute):
        return None
    return dotted(step.args[0].value if step.args else step.func.value)


def conclude(machine: Machine) -> None:
    """Emit the steps whose gradients are never cleared."""
    obligations = machine[Obligations]
    if not machine.complete or obligations.optimizer_escaped:
        return
    for step, (backward, loop) in obligations.uncleared_steps.items():
        elsewhere = obligations.clearing_paths.get((loop, _optimizer(step) or ""))
        if elsewhere is not None and step not in obligations.cleared:
            _emit(machine, step, backward, elsewhere)
    clearing = _clearing(machine) if obligations.uncleared else 0
    for step, (backward, loop, before) in obligations.uncleared.items():
        if clearing == len(before) and loop not in obligations.clearing:
            _emit(machine, step, backward, None, before[-1] if before else None)


def _clearing(machine: Machine) -> int:
    """The number of places that may clear gradients in code that was followed, or that something in sight calls."""
    chunks, places = machine.program.chunks, 0
    followed = {one.name.value for one in machine.entered if isinstance(one, cst.FunctionDef)}
    for chunk in chunks:
        text = _COMMENT.sub("", chunk.text)
        for found in MAY_CLEAR.compiled.finditer(text):
            function = _function_around(text, found.start())
            if function is None or function.startswith("__") or function in followed or _is_named(function, chunks):
                places += 1
    return places


def _function_around(text: str, place: int) -> str | None:
    """The name of the innermost function around a place in the text, by the indentation; None outside of functions."""
    start = text.rfind("\n", 0, place) + 1
    depth = len(text[start:place]) - len(text[start:place].lstrip())
    around = [found[2] for found in _DEFINITION.finditer(text, 0, start) if len(found[1]) < depth]
    return around[-1] if around else None


def _is_named(function: str, chunks: Sequence[Chunk]) -> bool:
    """Whether the name of a function occurs anywhere but where it is defined."""
    users = [chunk.text for chunk in chunks if function in chunk.words]
    defined = sum(found[2] == function for text in users for found in _DEFINITION.finditer(text))
    return bool(sum(len(re.findall(rf"\b{function}\b", text)) for text in users) > defined)


def _emit(
    machine: Machine,
    step: cst.Call,
    backward: cst.CSTNode,
    elsewhere: cst.CSTNode | None,
    before: cst.CSTNode | None = None,
) -> None:
    assert isinstance(step.func, cst.Attribute)
    scaled = len(step.args) == 1
    optimizer = step.args[0].value if scaled else step.func.value
    place = step if machine.program.main.owns(step) or not machine.program.main.owns(backward) else backward
    machine.emit(
        State(), NeverCleared, place, backward=backward, optimizer=optimizer, scaled=scaled, elsewhere=elsewhere,
        before=before,
    )  # fmt: skip


class Clearing(Tracker):
    """Tracks gradients that are never cleared."""

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit the steps with gradients of earlier steps."""
        conclude(self.machine)
