"""Calls of a scaler that divide gradients, step an optimizer and update the scale."""

from __future__ import annotations

from dataclasses import replace

from amplint.premises import Premise
from amplint.semantics.accumulation import windows
from amplint.semantics.events import Gradients, GradState, Job, OptState, ScalerStep, ScalerUpdate, Stage, Unscale
from amplint.semantics.memory import undone
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.gradients import each, outdated, unscaled
from amplint.semantics.memory.ledger import Ledger
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress, ScalerState, gradients_of, scaler_state, stage_of
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.memory.scaling import Scaling
from amplint.semantics.models import optimized, stale_copies
from amplint.semantics.protocol import first_scales, independence, mistaken, short_lived
from amplint.semantics.protocol.clipping import clipped_early
from amplint.semantics.protocol.escapes import forget_protocol
from amplint.semantics.protocol.optimizers import as_optimizer, consume, has_another
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import may_be_none
from amplint.semantics.regions.innermost import is_off
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State, same_iteration
from amplint.semantics.values.values import FALSE, Optimizer, Scaler, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk


def as_scaler(machine: Machine, value: Value) -> Scaler | None:
    """`value` as a scaler, if it is one or its use implies it; a framework steps and updates its own."""
    if isinstance(value, Scaler):
        return value
    if isinstance(value, Unknown) and not machine.symbols.involves(value.symbol, "manager"):
        return Scaler(value.symbol, machine.unknown("enabled", parts=(value.symbol,)))
    return None


def unscale(machine: Machine, state: State, node: cst.Call, scaler: Scaler, arguments: Arguments) -> None:
    """`scaler.unscale_(optimizer)`."""
    machine.idle.add(node)
    machine[CallIndex].record(node)
    machine.interactions += 1
    optimizer = as_optimizer(arguments.value("optimizer", 0))
    if is_off(machine, state, scaler.enabled):
        return
    if optimizer is None:
        state.change(Progress).scalers[scaler.symbol] = ScalerState(checked=True)
        forget_protocol(state)
        return
    before = gradients_of(machine, state, optimizer.symbol)
    _pair_event(machine, state, Unscale, node, scaler, optimizer, arguments)
    stage = stage_of(state, scaler, optimizer.symbol)
    unchecked = before.state is GradState.NONE and (stage.unchecked or not stage.refuses)
    known = scaler_state(state, scaler)
    state.change(Progress).gradients[optimizer.symbol] = unscaled(before, scaler, stage.refuses)
    windows.note(machine, state, Job.UNSCALE, node)
    state.change(Progress).pairs[scaler.symbol, optimizer.symbol] = Stage(
        OptState.UNSCALED, node, state.iteration, unchecked
    )
    state.change(Progress).scalers[scaler.symbol] = replace(known, checked=known.checked or not unchecked, latest=node)
    state.note(node, "unscale_ divides the gradients by the scale")


def step(machine: Machine, state: State, node: cst.Call, scaler: Scaler, arguments: Arguments) -> None:
    """`scaler.step(optimizer)`."""
    machine.idle.add(node)
    machine[CallIndex].record(node)
    machine.interactions += 1
    optimizer = as_optimizer(arguments.value("optimizer", 0))
    if optimizer is None:
        state.change(Progress).scalers[scaler.symbol] = ScalerState(checked=True)
        forget_protocol(state)
        return
    if is_off(machine, state, scaler.enabled):
        optimized.step(machine, state, node, optimizer)
        stale_copies.stepped(machine, state, node, optimizer, scaled=False)
        consume(machine, state, optimizer, node)
        return
    closure = arguments.get("closure", 1)
    if closure is not None and may_be_none(machine, closure.value):
        closure = None
    _pair_event(
        machine, state, ScalerStep, node, scaler, optimizer, arguments, closure=closure.node if closure else None
    )
    if not stage_of(state, scaler, optimizer.symbol).refuses:
        before = gradients_of(machine, state, optimizer.symbol)
        state.change(Progress).gradients[optimizer.symbol] = unscaled(before, scaler, refused=False)
    stale_copies.stepped(machine, state, node, optimizer, scaled=True)
    consume(machine, state, optimizer, node)
    machine[Ledger].train(scaler, node)
    short_lived.stepped(machine, state, node, scaler, optimizer)
    undone.require_update(machine, node, scaler)
    state.change(Progress).pairs[scaler.symbol, optimizer.symbol] = Stage(OptState.STEPPED, node, state.iteration)
    state.change(Progress).scalers[scaler.symbol] = replace(scaler_state(state, scaler), checked=True, latest=node)
    state.note(node, "the scaler steps the optimizer")


def _pair_event(
    machine: Machine,
    state: State,
    kind: type[Unscale] | type[ScalerStep],
    node: cst.Call,
    scaler: Scaler,
    optimizer: Optimizer,
    arguments: Arguments,
    **more: object,
) -> None:
    stage = stage_of(state, scaler, optimizer.symbol)
    gradients = gradients_of(machine, state, optimizer.symbol)
    argument = arguments.get("optimizer", 0)
    assert argument is not None
    known = scaler_state(state, scaler)
    loop = _inner_loop(machine, state, scaler, optimizer)
    if loop is not None and scaler.created is not None:
        machine[Ledger].fleeting.add(scaler.created)
    optimized.meet(machine, state, node, scaler, optimizer, None if kind is Unscale else stage)
    clipped_early(machine, state, node, optimizer, stage)
    machine[CallIndex].spell(scaler, node)
    if not argument.node.star:
        machine[CallIndex].index.optimizers.setdefault(optimizer.symbol, []).append(argument.node.value)
    if kind is Unscale:
        machine[CallIndex].index.unscales.setdefault(optimizer.symbol, []).append(node)
    else:
        machine[CallIndex].index.partners.setdefault(scaler.symbol, []).append(optimizer.symbol)
        machine[CallIndex].index.steps.setdefault(optimizer.symbol, []).append(node)
    raw = next((one.raw for one in gradients.passes if one.state is GradState.RAW), None)
    behind = first_scales.behind(machine, node, raw)
    machine.emit(
        state,
        kind,
        node,
        scaler=scaler,
        optimizer=optimizer,
        optimizer_node=argument.node.value,
        stage=stage,
        same_iteration=same_iteration(stage.iteration, state.iteration),
        gradients=gradients,
        updated=known.updated,
        latest=known.latest,
        inner_loop=loop,
        inside_window=stage.node in machine[Rhythm].inside,
        foreign=next((one for one in gradients.passes if _is_other(machine, one.scaler, scaler)), None),
        loop_binds=machine.slice.bound(loop) if loop is not None else frozenset(),
        first=raw is not None and first_scales.is_missing(machine, scaler, behind),
        behind=behind,
        premises=_unseen_of_pair(machine, state, node, scaler, stage, gradients),
        **more,
    )


def _unseen_of_pair(
    machine: Machine, state: State, node: cst.Call, scaler: Scaler, stage: Stage, gradients: Gradients
) -> tuple[Premise, ...]:
    """The premises of what is wrong with a call that unscales: an earlier one, or plain gradients."""
    if stage.refuses:
        return independence.unseen(machine, state, node, "update", stage.node, scaler)
    waits = [one for one in gradients.passes if one.consumed is None]
    if not any(one.state is GradState.RAW for one in waits):
        foreign = next((one for one in waits if _is_other(machine, one.scaler, scaler)), None)
        return independence.without_own_pass(machine, node, scaler, foreign.backward) if foreign is not None else ()
    plain = [one for one in waits if one.state is GradState.RAW]
    if len(plain) < len(waits) and all(one.taken for one in plain):
        return (Premise.REACHED_BY_OTHER,)
    raw = next((one.raw for one in plain), None)
    return independence.unseen(machine, state, node, "scale", None, scaler, raw)


def _is_other(machine: Machine, one: Scaler | None, scaler: Scaler) -> bool:
    if one is None or one.symbol == scaler.symbol or {one.enabled, scaler.enabled} & {FALSE}:
        return False
    kinds = {machine.symbols.key(one.symbol)[0], machine.symbols.key(scaler.symbol)[0]}
    return len(kinds) == 1 and kinds <= {"made", "parameter"}


def _inner_loop(machine: Machine, state: State, scaler: Scaler, optimizer: Optimizer) -> cst.CSTNode | None:
    """The outermost loop that constructs the scaler in every iteration, but not the optimizer."""
    around = optimizer.loops
    if around is None:
        made = machine.symbols.time(optimizer.symbol)
        around = scaler.loops[: sum(begun <= made for begun in state.iteration)]
    depth = len(around)
    if scaler.created is None or scaler.loops[:depth] != around or len(scaler.loops) == depth:
        return None
    return scaler.loops[depth]


def update(machine: Machine, state: State, node: cst.Call, scaler: Scaler, arguments: Arguments) -> None:
    """`scaler.update()`."""
    machine.idle.add(node)
    machine[CallIndex].record(node)
    machine.interactions += 1
    if is_off(machine, state, scaler.enabled):
        return
    known = scaler_state(state, scaler)
    older = machine[Scaling].is_older(scaler)
    hooked = any(map(_registers_step, machine.program.chunks))
    forced = bool(arguments.given) or hooked or (older and scaler.symbol not in state[Progress].scalers)
    machine[CallIndex].spell(scaler, node)
    windows.note(machine, state, Job.UPDATE, node)
    machine[CallIndex].index.updates.setdefault(scaler.symbol, []).append(node)
    machine.emit(
        state,
        ScalerUpdate,
        node,
        scaler=scaler,
        checked=known.checked or forced or independence.trains_nothing(machine, state, node),
        previous=known.updated if same_iteration(known.iteration, state.iteration) else None,
        pending=_pending(machine, state, scaler) if not hooked else None,
    )
    mistaken.updated(machine, state, scaler)
    state.change(Progress).gradients = each(state[Progress].gradients, lambda one: outdated(one, scaler, node))
    state.change(Progress).pairs = {
        pair: stage for pair, stage in state[Progress].pairs.items() if pair[0] != scaler.symbol
    }
    state.change(Progress).scalers[scaler.symbol] = ScalerState(updated=node, iteration=state.iteration, older=older)
    state.note(node, "update sets the scale for the next iteration")


@cached_per_chunk
def _registers_step(chunk: Chunk) -> bool:
    """Whether `chunk` registers code that runs within backward, once a gradient is complete, to step with it."""
    return "register_post_accumulate_grad_hook" in chunk.text


def _pending(machine: Machine, state: State, scaler: Scaler) -> cst.CSTNode | None:
    """The backward pass whose gradients wait for a step; of optimizers not seen yet only if there may be any."""
    known = {key for key in state[Progress].gradients if key != ANY_OPTIMIZER}
    all_met = known and not has_another(machine, state, known, len(known))
    waiting = [one for key, one in state[Progress].gradients.items() if key in known or not all_met]
    for gradients in [one for several in waiting for one in several.passes]:
        fresh = gradients.state is GradState.SCALED and gradients.consumed is None and gradients.outdated is None
        if fresh and gradients.carries(scaler):
            return gradients.backward
    return None
