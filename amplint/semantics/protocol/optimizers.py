"""Optimizers of a path: their steps without a scaler and the clearing of their gradients."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from amplint.semantics.accumulation import windows
from amplint.semantics.events import GradState, Job, OptimizerStep
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.gradients import CLEARED, NO_GRADIENTS, carrying, each, may_wait, taken, used
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress, gradients_of
from amplint.semantics.models import optimized, stale_copies
from amplint.semantics.protocol import independence, skips, two_choices
from amplint.semantics.protocol.overflows import leave_overflow
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import OPTIMIZERS
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Instance, Optimizer, Unknown, Value
from amplint.source import syntax as cst


def as_optimizer(value: Value | None) -> Optimizer | None:
    """`value` as an optimizer, if it can be one."""
    if isinstance(value, Optimizer):
        return value
    return Optimizer(value.symbol) if isinstance(value, (Unknown, Instance)) else None


def step(machine: Machine, state: State, node: cst.Call, optimizer: Optimizer, closure: bool) -> None:
    """`optimizer.step()`; a `closure` computed the gradients."""
    machine.idle.add(node)
    machine[CallIndex].record(node)
    machine.interactions += 1
    gradients = carrying(gradients_of(machine, state, optimizer.symbol))
    overlooked = skips.overlooked(machine, state, optimizer)
    if isinstance(node.func, cst.Attribute):
        needed = gradients.backward or overlooked
        machine.emit(
            state,
            OptimizerStep,
            node,
            call=node,
            optimizer=optimizer,
            optimizer_node=node.func.value,
            gradients=gradients,
            closure=closure,
            disputed=gradients.state is GradState.SCALED
            and two_choices.may_agree(machine, state, gradients.backward, node),
            overlooked=overlooked,
            premises=independence.unseen(machine, state, node, "step", needed, gradients.scaler)
            if gradients.scaler is not None and gradients.consumed is None
            else (),
            guesses=machine.guesses_for(optimizer.symbol),
        )
    optimized.step(machine, state, node, optimizer)
    stale_copies.stepped(machine, state, node, optimizer, scaled=False)
    _take(machine, state, optimizer)
    consume(machine, state, optimizer, node)
    if gradients.scaler is not None:
        state.change(Progress).unskipped |= {optimizer.symbol}
    state.note(node, "the optimizer steps")


def consume(machine: Machine, state: State, optimizer: Optimizer, node: cst.Call) -> None:
    """Mark the gradients of `optimizer` as used by the step at `node`."""
    windows.note(machine, state, Job.STEP, node)
    state.change(Progress).gradients[optimizer.symbol] = used(gradients_of(machine, state, optimizer.symbol), node)


def _take(machine: Machine, state: State, optimizer: Optimizer) -> None:
    """Mark the plain passes that an optimizer steps with among the gradients of the others."""
    passes = gradients_of(machine, state, optimizer.symbol).passes
    raw = {one.raw for one in passes if one.raw is not None and one.consumed is None}
    if raw and len(state[Progress].gradients) > 1:
        others = {key: one for key, one in state[Progress].gradients.items() if key != optimizer.symbol}
        state.change(Progress).gradients |= each(others, lambda one: taken(one, raw))


def constructed(state: State, optimizer: Optimizer) -> None:
    """A constructor of an optimizer: earlier passes are of others, or of none where no other one is left."""
    if state[Progress].gradients.get(ANY_OPTIMIZER, NO_GRADIENTS).passes:
        left = any(one.symbol != optimizer.symbol for one in held_optimizers(state))
        state.change(Progress).gradients[optimizer.symbol if left else ANY_OPTIMIZER] = NO_GRADIENTS


def zero_grad(machine: Machine, state: State, node: cst.Call, owner: Value, to_none: bool) -> None:
    """`optimizer.zero_grad()` or `model.zero_grad()`; `to_none` says whether gradients become None or zeros."""
    machine.idle.add(node)
    machine.interactions += 1
    leave_overflow(machine, state)
    windows.note(machine, state, Job.CLEAR, node, in_vain=not any(map(may_wait, state[Progress].gradients.values())))
    cleared = replace(CLEARED, cleared=node) if to_none else NO_GRADIENTS
    known = {key for key in state[Progress].gradients if key != ANY_OPTIMIZER}
    if isinstance(owner, Optimizer):
        state.change(Progress).gradients[owner.symbol] = cleared
        if known <= {owner.symbol} and not has_another(machine, state, {owner.symbol}):
            state.change(Progress).gradients[ANY_OPTIMIZER] = cleared
    elif len(known) <= 1:
        state.change(Progress).gradients = dict.fromkeys([ANY_OPTIMIZER, *known], cleared)
    else:
        state.change(Progress).gradients = dict.fromkeys([ANY_OPTIMIZER, *known], NO_GRADIENTS)
    state.note(node, "zero_grad clears the gradients")


def has_another(machine: Machine, state: State, known: Set[int], count: int = 1) -> bool:
    """Whether there may be more than `count` optimizers, the `known` ones among them.

    A name is often that of an element, so that only the elements or only the names are taken for different ones.
    """
    used = [path for path, kind in machine.kinds().items() if kind in OPTIMIZERS]
    elements = sum("[" in path for path in used)
    if max(elements, len(used) - elements) > count:
        return True
    return len({value.symbol for value in held_optimizers(state)} | known) > count


def held_optimizers(state: State) -> list[Optimizer]:
    """The optimizers that variables and attributes hold."""
    tables = [*state.frames.values(), *state.heap.values()]
    return [value for table in tables for value in table.values() if type(value) is Optimizer]
