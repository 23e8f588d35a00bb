"""The GradScaler protocol: the effect of each call on a scaler, an optimizer or a loss on the gradients of a path.

The stages are PyTorch's own (`torch.amp.grad_scaler.OptState`). A backward pass is assumed to reach every optimizer,
since the parameters that a loss depends on are unknown; a violation is reported only for the optimizer that is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from amplint.findings import Guessed
from amplint.premises import Premise
from amplint.semantics.accumulation import boundaries, windows
from amplint.semantics.events import (
    Backward,
    ClippedEarly,
    Gradients,
    GradientUse,
    GradState,
    Job,
    OptimizerStep,
    OptState,
    OverflowKept,
    ScaleDiscarded,
    ScalerRecordsRead,
    ScalerStep,
    ScalerUpdate,
    Stage,
    Unscale,
)
from amplint.semantics.frameworks import frameworks
from amplint.semantics.losses import penalties, readings, zeros
from amplint.semantics.memory import undone
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.gradients import (
    CLEARED,
    NO_GRADIENTS,
    added,
    carrying,
    each,
    may_wait,
    outdated,
    taken,
    unscaled,
    used,
    waiting,
)
from amplint.semantics.memory.ledger import Ledger
from amplint.semantics.memory.progress import (
    ANY_OPTIMIZER,
    READY,
    Owners,
    Progress,
    ScalerState,
    gradients_of,
    on_path,
    stage_of,
)
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.memory.undone import Obligations
from amplint.semantics.models import optimized, outside, stale_copies
from amplint.semantics.protocol import (
    first_scales,
    independence,
    mistaken,
    overflow_tests,
    short_lived,
    skips,
    two_choices,
)
from amplint.semantics.python.machine import Machine, Sites
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import may_be_none, symbol_of
from amplint.semantics.reading.inherited import only_computes
from amplint.semantics.reading.scopes import NAMED_OPTIMIZER, OPTIMIZERS, SCALER, last_name
from amplint.semantics.regions import ran
from amplint.semantics.regions.innermost import is_off
from amplint.semantics.regions.ran import RegionsRun
from amplint.semantics.tensors.tensors import Tensors
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State, same_iteration
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    PERHAPS_SCALED,
    Function,
    Instance,
    Items,
    Manager,
    Method,
    Optimizer,
    Ref,
    Scaler,
    Tensor,
    Unknown,
    Value,
)
from amplint.semantics.words import KEEPS_RECORDS, OPTIMIZER_NAME, RUNS_BACKWARD, SCHEDULER_CLASS, SETS_RATES
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import every, walk
from amplint.torchlib.catalogue import operations_with_form
from amplint.torchlib.frameworks import UNSCALED_IN, XLA
from amplint.torchlib.methods import INHERITED_HARMLESS
from amplint.torchlib.names import ANY_OPTIMIZER_CLASS, GRAD_SCALERS, is_optimizer


def as_scaler(machine: Machine, value: Value) -> Scaler | None:
    """`value` as a scaler, if it is one or its use implies it; a framework steps and updates its own."""
    if isinstance(value, Scaler):
        return value
    if isinstance(value, Unknown) and not machine.symbols.involves(value.symbol, "manager"):
        return Scaler(value.symbol, machine.unknown("enabled", parts=(value.symbol,)))
    return None


def as_optimizer(value: Value | None) -> Optimizer | None:
    """`value` as an optimizer, if it can be one."""
    if isinstance(value, Optimizer):
        return value
    return Optimizer(value.symbol) if isinstance(value, (Unknown, Instance)) else None


def scale(machine: Machine, state: State, node: cst.Call, scaler: Scaler, arguments: Arguments) -> Value:
    """`scaler.scale(outputs)`."""
    machine.idle.add(node)
    machine[CallIndex].record(node)
    value = arguments.values[0] if arguments.given else Unknown(machine.fresh())
    if is_off(machine, state, scaler.enabled):
        machine[Protocol].idle_scales.add(node)
        machine[CallIndex].index.idle.add(scaler.symbol)
        return value
    if isinstance(value, Items):
        return Items(tuple(_scaled(machine, state, node, scaler, item) for item in value.values))
    _spell(machine, scaler, node)
    penalties.scaled(machine, state, node, scaler, value)
    scaled = _scaled(machine, state, node, scaler, value)
    if isinstance(machine.statement, cst.SimpleStatementLine) and _is_bare(machine.statement, node):
        state.bind(state.frame, "<scaled>", scaled)
        machine.emit(state, ScaleDiscarded, node, scaler=scaler, loss=symbol_of(machine, value))
    return scaled


def _is_bare(statement: cst.SimpleStatementLine, node: cst.Call) -> bool:
    return any(isinstance(small, cst.Expr) and small.value is node for small in statement.body)


def _scaled(machine: Machine, state: State, node: cst.Call, scaler: Scaler, value: Value) -> Tensor:
    plain = symbol_of(machine, value)
    readings.scaled(machine, state, scaler, plain, node)
    result = Tensor(machine.fresh(), scaled=scaler, plain=plain, made=node)
    machine[Protocol].scaled.add(result.symbol)
    machine[Protocol].plain[result.symbol] = value
    return result


def backward(machine: Machine, state: State, node: cst.Call, loss: Value) -> None:
    """A backward pass on `loss`."""
    machine.idle.add(node)
    machine[CallIndex].record(node)
    machine.interactions += 1
    machine[Protocol].ran_at.setdefault(node, set()).add(machine.sites)
    if _of_unknown_scale(machine, loss) or (isinstance(loss, Tensor) and PERHAPS_SCALED in loss.traits):
        forget_gradients(state)
        return
    scaler = loss.scaled if isinstance(loss, Tensor) else None
    if scaler is not None and is_off(machine, state, scaler.enabled):
        scaler = None
    machine[CallIndex].index.backwards.setdefault(symbol_of(machine, loss), []).append(node)
    windows.record_backward(machine, state, node, loss)
    of_leaf = isinstance(loss, Tensor) and loss.symbol in machine[Tensors].leaves
    regions = ran.regions(machine, state, scaler)
    of_zero = zeros.is_zero(machine, loss)
    machine.emit(
        state, Backward, node, loss=loss, scaler=scaler, regions=regions, of_leaf=of_leaf, of_zero=of_zero,
    )  # fmt: skip
    outside.differentiated(machine, state, loss, node)
    state.change(RegionsRun).ran = ()
    if scaler is not None:
        _leave_overflow(machine, state)
        _emit_overflow(machine, state, node, scaler)
        state.note(node, "backward leaves gradients that carry the loss scale")
        fresh = Gradients(GradState.SCALED, scaler, node)
        plain = machine[Protocol].plain.get(symbol_of(machine, loss))
        if plain is not None and not _retains_graph(node):
            state.change(Progress).spent = plain, node
    else:
        machine[CallIndex].index.absent.setdefault(node, set()).update(first_scales.without_object(state))
        discarded = _discarded_scale(machine, state, loss)
        if discarded is not None:
            machine.emit(state, ScaleDiscarded, discarded[1], scaler=discarded[0], loss=symbol_of(machine, loss))
        state.note(node, "backward runs on the loss without its scale")
        idle = _idle_scale(machine, node)
        scale = discarded[1] if discarded else idle
        fresh = Gradients(GradState.RAW, backward=node, raw=node, discarded=scale, again=_spent(state, loss))
    known = {key for key in state[Progress].gradients if key != ANY_OPTIMIZER}
    alone = len(known) <= 1 and not _has_another(machine, state, known)
    left = {ANY_OPTIMIZER: NO_GRADIENTS, **state[Progress].gradients}
    before = each(left, lambda one: on_path(machine, state, one))
    after = each(before, lambda one: added(one, fresh, alone))
    kept = [optimizer for optimizer in known if _keeps_graph(before[optimizer])] if not alone else []
    for optimizer in kept:
        if not any(waiting(before[other]) for other in known if other != optimizer):
            after[optimizer] = added(before[optimizer], fresh, True)
    state.change(Progress).gradients = after
    state[Progress].unskipped = frozenset()


def _leave_overflow(machine: Machine, state: State) -> None:
    """Mark the scalers of gradients that a condition of the path has found to have overflowed, and that wait."""
    if not overflow_tests.occur(machine):
        return
    for gradients in {id(one): one for one in state[Progress].gradients.values()}.values():
        for one in on_path(machine, state, gradients).passes:
            waits = one.state is GradState.SCALED and one.consumed is None and one.outdated is None
            if waits and one.scaler is not None and one.backward is not None and not _is_checked(state, one.scaler):
                condition = overflow_tests.decided(machine, state, one.backward)
                if condition is not None:
                    known = replace(_scaler(state, one.scaler), overflowed=condition)
                    state.change(Progress).scalers[one.scaler.symbol] = known


def _is_checked(state: State, scaler: Scaler) -> bool:
    """Whether the scaler has divided or stepped gradients since its last update, so that it refuses to do so again."""
    return any(stage.refuses for pair, stage in state[Progress].pairs.items() if pair[0] == scaler.symbol)


def _emit_overflow(machine: Machine, state: State, node: cst.Call, scaler: Scaler) -> None:
    """The next backward pass has the scale that gradients have overflowed at."""
    known = _scaler(state, scaler)
    if known.overflowed is not None:
        machine.emit(state, OverflowKept, node, scaler=scaler, condition=known.overflowed)
        state.change(Progress).scalers[scaler.symbol] = replace(known, overflowed=None)


def _idle_scale(machine: Machine, node: cst.Call) -> cst.CSTNode | None:
    """The call of `scale` whose result `backward` is called on, on a path with a disabled scaler."""
    owner = node.func.value if isinstance(node.func, cst.Attribute) else None
    return owner if owner in machine[Protocol].idle_scales else None


def _spent(state: State, loss: Value) -> cst.CSTNode | None:
    """The pass on the scaled `loss` that has used up its graph.

    It is the value of one evaluation: another one of the same expression has a graph of its own.
    """
    plain, node = state[Progress].spent or (None, None)
    return node if plain is loss else None


def _keeps_graph(gradients: Gradients) -> bool:
    """Whether the latest pass kept its graph for a further one, which adds to the gradients of the same parameters."""
    return isinstance(gradients.backward, cst.Call) and _retains_graph(gradients.backward)


def _retains_graph(call: cst.Call) -> bool:
    return any(
        argument.keyword is not None
        and argument.keyword.value == "retain_graph"
        and isinstance(argument.value, cst.Name)
        and argument.value.value == "True"
        for argument in call.args
    )


def _of_unknown_scale(machine: Machine, loss: Value) -> bool:
    """Whether `loss` may hold older gradients or carry a scale.

    That is the result of an unseen call of a scaled loss, and an argument from an unseen caller, of a private method or
    in a program that neither makes a scaler nor scales anything.
    """
    symbol, scaled = symbol_of(machine, loss), isinstance(loss, Tensor) and loss.scaled is not None
    taken = machine.symbols.involves(symbol, "gradients of", False) and not scaled
    if machine.symbols.key(symbol)[0] == "call" and not machine[Protocol].scaled.isdisjoint(
        machine.symbols.parts(symbol)
    ):
        return True
    method = machine.calls[-1] if machine.calls else None
    from_caller = machine.symbols.key(symbol)[0] == "parameter" and (
        _is_private_method(method) or all(chunk.words.isdisjoint(_SCALING) for chunk in machine.program.chunks)
    )
    return taken or from_caller or machine.symbols.involves(symbol, "attribute", "grad")


def _is_private_method(function: cst.CSTNode | None) -> bool:
    """Whether other methods of the same object, including those of subclasses, call a function."""
    if not isinstance(function, cst.FunctionDef) or not function.params.params:
        return False
    name = function.name.value
    return function.params.params[0].name.value == "self" and name.startswith("_") and not name.startswith("__")


def _scaler(state: State, scaler: Scaler) -> ScalerState:
    return state[Progress].scalers.get(scaler.symbol, ScalerState())


def _discarded_scale(machine: Machine, state: State, loss: Value) -> tuple[Scaler, cst.CSTNode] | None:
    symbol = symbol_of(machine, loss)
    for value in [value for table in state.frames.values() for value in table.values()]:
        if isinstance(value, Tensor) and value.scaled and value.plain == symbol and value.made is not None:
            return value.scaled, value.made
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
    known = _scaler(state, scaler)
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
        _consume(machine, state, optimizer, node)
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
    _consume(machine, state, optimizer, node)
    machine[Ledger].train(scaler, node)
    short_lived.stepped(machine, state, node, scaler, optimizer)
    undone.require_update(machine, node, scaler)
    state.change(Progress).pairs[scaler.symbol, optimizer.symbol] = Stage(OptState.STEPPED, node, state.iteration)
    state.change(Progress).scalers[scaler.symbol] = replace(_scaler(state, scaler), checked=True, latest=node)
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
    known = _scaler(state, scaler)
    loop = _inner_loop(machine, state, scaler, optimizer)
    if loop is not None and scaler.created is not None:
        machine[Ledger].fleeting.add(scaler.created)
    optimized.meet(machine, state, node, scaler, optimizer, None if kind is Unscale else stage)
    _clipped_early(machine, state, node, optimizer, stage)
    _spell(machine, scaler, node)
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
        return independence.unseen(machine, state, node, "update", _nodes(stage.node), scaler)
    waits = [one for one in gradients.passes if one.consumed is None]
    if not any(one.state is GradState.RAW for one in waits):
        foreign = next((one for one in waits if _is_other(machine, one.scaler, scaler)), None)
        return independence.without_own_pass(machine, node, scaler, foreign.backward) if foreign is not None else ()
    plain = [one for one in waits if one.state is GradState.RAW]
    if len(plain) < len(waits) and all(one.taken for one in plain):
        return (Premise.REACHED_BY_OTHER,)
    raw = next((one.raw for one in plain), None)
    return independence.unseen(machine, state, node, "scale", (), scaler, raw)


def _nodes(node: cst.CSTNode | None) -> tuple[cst.CSTNode, ...]:
    return (node,) if node is not None else ()


def _is_other(machine: Machine, one: Scaler | None, scaler: Scaler) -> bool:
    if one is None or one.symbol == scaler.symbol or {one.enabled, scaler.enabled} & {FALSE}:
        return False
    kinds = {machine.symbols.key(one.symbol)[0], machine.symbols.key(scaler.symbol)[0]}
    return len(kinds) == 1 and kinds <= {"made", "parameter"}


def _spell(machine: Machine, scaler: Scaler, node: cst.Call) -> None:
    if isinstance(node.func, cst.Attribute):
        machine[CallIndex].index.scalers.setdefault(scaler.symbol, []).append(node.func.value)


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


def _consume(machine: Machine, state: State, optimizer: Optimizer, node: cst.Call) -> None:
    windows.note(machine, state, Job.STEP, node)
    state.change(Progress).gradients[optimizer.symbol] = used(gradients_of(machine, state, optimizer.symbol), node)


def _take(machine: Machine, state: State, optimizer: Optimizer) -> None:
    """Mark the plain passes that an optimizer steps with among the gradients of the others."""
    passes = gradients_of(machine, state, optimizer.symbol).passes
    raw = {one.raw for one in passes if one.raw is not None and one.consumed is None}
    if raw and len(state[Progress].gradients) > 1:
        others = {key: one for key, one in state[Progress].gradients.items() if key != optimizer.symbol}
        state.change(Progress).gradients |= each(others, lambda one: taken(one, raw))


def update(machine: Machine, state: State, node: cst.Call, scaler: Scaler, arguments: Arguments) -> None:
    """`scaler.update()`."""
    machine.idle.add(node)
    machine[CallIndex].record(node)
    machine.interactions += 1
    if is_off(machine, state, scaler.enabled):
        return
    known = _scaler(state, scaler)
    older = machine[Protocol].is_older(scaler)
    hooked = any(map(_registers_step, machine.program.chunks))
    forced = bool(arguments.given) or hooked or (older and scaler.symbol not in state[Progress].scalers)
    _spell(machine, scaler, node)
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
    all_met = known and not _has_another(machine, state, known, len(known))
    waiting = [one for key, one in state[Progress].gradients.items() if key in known or not all_met]
    for gradients in [one for several in waiting for one in several.passes]:
        fresh = gradients.state is GradState.SCALED and gradients.consumed is None and gradients.outdated is None
        if fresh and gradients.carries(scaler):
            return gradients.backward
    return None


def optimizer_step(machine: Machine, state: State, node: cst.Call, optimizer: Optimizer, closure: bool) -> None:
    """`optimizer.step()`; a `closure` computed the gradients."""
    machine.idle.add(node)
    machine[CallIndex].record(node)
    machine.interactions += 1
    gradients = carrying(gradients_of(machine, state, optimizer.symbol))
    overlooked = skips.overlooked(machine, state, optimizer)
    if isinstance(node.func, cst.Attribute):
        needed = _nodes(gradients.backward or overlooked)
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
    _consume(machine, state, optimizer, node)
    if gradients.scaler is not None:
        state.change(Progress).unskipped |= {optimizer.symbol}
    state.note(node, "the optimizer steps")


def new_optimizer(state: State, optimizer: Optimizer) -> None:
    """A constructor of an optimizer: earlier passes are of others, or of none where no other one is left."""
    if state[Progress].gradients.get(ANY_OPTIMIZER, NO_GRADIENTS).passes:
        left = any(one.symbol != optimizer.symbol for one in _optimizers(state))
        state.change(Progress).gradients[optimizer.symbol if left else ANY_OPTIMIZER] = NO_GRADIENTS


def zero_grad(machine: Machine, state: State, node: cst.Call, owner: Value, to_none: bool) -> None:
    """`optimizer.zero_grad()` or `model.zero_grad()`; `to_none` says whether gradients become None or zeros."""
    machine.idle.add(node)
    machine.interactions += 1
    _leave_overflow(machine, state)
    windows.note(machine, state, Job.CLEAR, node, in_vain=not any(map(may_wait, state[Progress].gradients.values())))
    cleared = replace(CLEARED, cleared=node) if to_none else NO_GRADIENTS
    known = {key for key in state[Progress].gradients if key != ANY_OPTIMIZER}
    if isinstance(owner, Optimizer):
        state.change(Progress).gradients[owner.symbol] = cleared
        if known <= {owner.symbol} and not _has_another(machine, state, {owner.symbol}):
            state.change(Progress).gradients[ANY_OPTIMIZER] = cleared
    elif len(known) <= 1:
        state.change(Progress).gradients = dict.fromkeys([ANY_OPTIMIZER, *known], cleared)
    else:
        state.change(Progress).gradients = dict.fromkeys([ANY_OPTIMIZER, *known], NO_GRADIENTS)
    state.note(node, "zero_grad clears the gradients")


def _has_another(machine: Machine, state: State, known: Set[int], count: int = 1) -> bool:
    """Whether there may be more than `count` optimizers, the `known` ones among them.

    A name is often that of an element, so that only the elements or only the names are taken for different ones.
    """
    used = [path for path, kind in machine.kinds().items() if kind in OPTIMIZERS]
    elements = sum("[" in path for path in used)
    if max(elements, len(used) - elements) > count:
        return True
    return len({value.symbol for value in _optimizers(state)} | known) > count


def _optimizers(state: State) -> list[Optimizer]:
    """The optimizers that variables and attributes hold."""
    tables = [*state.frames.values(), *state.heap.values()]
    return [value for table in tables for value in table.values() if type(value) is Optimizer]


def gradients_read(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    target: Value,
    what: str,
    mutates: bool,
    guesses: tuple[Guessed, ...] = (),
    hidden: bool = False,
) -> None:
    """Gradients of `target` (parameters, a model, one gradient) are clipped, measured or changed.

    `guesses` are those that this depends on; `hidden` says that the callee may unscale the gradients first.
    """
    machine.interactions += 1
    known, matched, unused = _clipped_of(machine, state, target)
    others = [key for key in known if key not in matched and _owners(machine, key) is None]
    if (matched or unused) and any(gradients_of(machine, state, key).state is GradState.UNSCALED for key in others):
        return  # possibly a wrapper of the matched optimizer
    if len(known) > 1 and not (matched or unused) and not _unscaled_ones(state).isdisjoint(known):
        return  # possibly those of the optimizer that has just been unscaled
    candidates = matched or unused or known or [ANY_OPTIMIZER]
    if mutates and not guesses:
        _clip_unknown(machine, state, node, candidates)
    all_of_them = [(key, carrying(gradients_of(machine, state, key))) for key in candidates]
    live = [(key, g) for key, g in all_of_them if g.state is not GradState.NONE and g.consumed is None]
    if live and not (matched or unused or mutates) and any(g.consumed is not None for _, g in all_of_them):
        return  # possibly those that the scaler unscaled and stepped with
    if live and all(_is_from_earlier_call(machine, g.backward) for _, g in live):
        return
    if live and all(g.state is GradState.SCALED and g.scaler == live[0][1].scaler for _, g in live):
        key, gradients = live[0]
        scaler = gradients.scaler
        assert scaler is not None
        machine.emit(
            state, GradientUse, node, gradients=gradients, stage=stage_of(state, scaler, key), what=what,
            mutates=mutates, optimizers=tuple(key for key, _ in live), guesses=guesses, hidden=hidden,
            partial=boundaries.is_ahead_of_count(machine, node),
            premises=independence.unseen(machine, state, node, "unscale_", _nodes(gradients.backward), scaler),
        )  # fmt: skip
    elif guesses:
        return
    elif not live and len(all_of_them) == 1 and all_of_them[0][1].consumed is not None:
        key, known_of_it = all_of_them[0]
        if _is_of_next_element(machine, key, node, known_of_it.consumed):
            return
        gradients = next((one for one in known_of_it.passes if one.scaler is not None), known_of_it)
        stage = stage_of(state, gradients.scaler, key) if gradients.scaler else READY
        machine.emit(
            state, GradientUse, node, gradients=gradients, stage=stage, what=what, mutates=mutates, optimizers=(key,),
            hidden=False,
        )  # fmt: skip


def _is_of_next_element(machine: Machine, optimizer: int, node: cst.CSTNode, consumed: cst.CSTNode | None) -> bool:
    """Whether a loop over optimizers that steps one of them at `consumed` reaches `node` with the one after it."""
    source = machine.program.source_of(node)
    loops = [one for one in source.ancestors(node) if isinstance(one, cst.For)] if source is not None else []
    return any(
        machine.symbols.involves(optimizer, "item", id(loop))
        and next((one for one in walk(loop.body) if one is node or one is consumed), None) is node
        for loop in loops
    )


def _unscaled_ones(state: State) -> Set[int]:
    """The optimizers whose gradients `unscale_` has divided since the last step."""
    return {optimizer for (_, optimizer), stage in state[Progress].pairs.items() if stage.state is OptState.UNSCALED}


def _is_from_earlier_call(machine: Machine, backward: cst.CSTNode | None) -> bool:
    """Whether another call of the running function computed the gradients, and this one runs no backward pass.

    A function called for training and evaluation finds the gradients of the last training window.
    """
    ran = machine[Protocol].ran_at.get(backward) if backward is not None else None
    if ran is None or machine.sites in ran or not machine.calls:
        return False
    return any(inner is backward for inner in every(machine.calls[-1], cst.Call))


def _clipped_of(machine: Machine, state: State, target: Value) -> tuple[list[int], list[int], list[int]]:
    """The used optimizers that `target` belongs to, and its optimizers not used yet."""
    known = [key for key in state[Progress].gradients if key != ANY_OPTIMIZER]
    owner = _owner(machine, target)
    matched = [key for key in known if owner is not None and owner in (key, _owners(machine, key))]
    unused = [one.symbol for one in _optimizers(state) if owner is not None and owner == _owners(machine, one.symbol)]
    return known, matched, unused


def has_optimizer(machine: Machine, state: State, target: Value) -> bool:
    """Whether `target` is known to belong to an optimizer, as the model whose parameters it got does."""
    _, matched, unused = _clipped_of(machine, state, target)
    return bool(matched or unused)


def clipped_by_name(
    machine: Machine, state: State, node: cst.CSTNode, target: Value, guesses: tuple[Guessed, ...]
) -> None:
    """A call that by its name clips the gradients of `target`, subject to these `guesses`, returned."""
    known, matched, unused = _clipped_of(machine, state, target)
    machine[Protocol].clipped_by_name[node] = guesses
    _clip_unknown(machine, state, node, matched or unused or known or [ANY_OPTIMIZER])


def clipped_by_hand(machine: Machine, state: State, node: cst.CSTNode, target: Value) -> None:
    """A gradient is multiplied in place by a number that was computed from gradients.

    The call that led to another file stands for what happens there.
    """
    known, matched, unused = _clipped_of(machine, state, target)
    ours = (one for one in (node, *reversed(machine.sites)) if one is not None and _is_in_main(machine, one))
    _clip_unknown(machine, state, next(ours, node), matched or unused or known or [ANY_OPTIMIZER])


def _is_in_main(machine: Machine, node: cst.CSTNode) -> bool:
    return machine.program.source_of(node) is machine.program.main


def _clip_unknown(machine: Machine, state: State, node: cst.CSTNode, optimizers: Iterable[int]) -> None:
    """Record that unknown gradients are clipped, unless a framework has unscaled them."""
    if any(isinstance(function, cst.FunctionDef) and function.name.value in UNSCALED_IN for function in machine.calls):
        return
    divided = {optimizer for (_, optimizer), stage in state[Progress].pairs.items() if stage.refuses}
    for key in set(optimizers) - divided:
        gradients = gradients_of(machine, state, key)
        if gradients.state is GradState.UNKNOWN and gradients.manager is None and gradients.consumed is None:
            state.change(Progress).gradients[key] = replace(gradients, clipped=node)


def _clipped_early(machine: Machine, state: State, node: cst.Call, optimizer: Optimizer, stage: Stage) -> None:
    """The first call that unscales gradients, at `node`, follows a call that clipped them."""
    known = {key for key in state[Progress].gradients if key != ANY_OPTIMIZER} | {optimizer.symbol}
    gradients = gradients_of(machine, state, optimizer.symbol)
    clipped = gradients.clipped if gradients.consumed is None else None
    if clipped is None or stage.refuses or _has_another(machine, state, known) or _is_in_handler(machine, clipped):
        return
    certain = _is_unscale(node)
    guesses = machine[Protocol].clipped_by_name.get(clipped, ())
    if guesses and not certain:
        return  # what clips in unseen code may unscale by itself
    escaped = not machine[Obligations].escaped_in.isdisjoint(machine.calls)
    unscaled = any("unscale_" in chunk.text for chunk in machine.program.chunks)
    if certain or not (escaped or unscaled):
        machine.emit(state, ClippedEarly, clipped, unscaled=node, certain=certain, guesses=guesses)


def _is_in_handler(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether `node` runs only after a failure, possibly before backward."""
    source = machine.program.source_of(node)
    return source is not None and any(isinstance(above, cst.ExceptHandler) for above in source.ancestors(node))


def _is_unscale(node: cst.Call) -> bool:
    return isinstance(node.func, cst.Attribute) and node.func.attr.value == "unscale_"


def _owner(machine: Machine, target: Value) -> int | None:
    """The symbol of the model or optimizer whose parameters `target` is."""
    symbol = symbol_of(machine, target)
    while symbol not in machine[Owners].known:
        kind = machine.symbols.key(symbol)[0]
        if kind == "parameters":
            return machine.symbols.parts(symbol)[0]
        if kind not in _TAKEN_FROM:
            return None
        symbol = machine.symbols.parts(symbol)[0]
    return symbol


_TAKEN_FROM = frozenset({"attribute", "part", "index", "item", "comprehension", "each"})
"""Kinds of symbols that stand for something taken from their first part."""


def _owners(machine: Machine, optimizer: int) -> int | None:
    return machine[Owners].known.get(optimizer)


_SCALING = frozenset({"GradScaler", "scale"})
_METHODS = frozenset({"backward", "unscale_", "step", "update", "zero_grad"})
_TENSOR_METHODS = operations_with_form("m")
_MAKES_OPTIMIZERS = frozenset({"optim", "Adam", "AdamW", "SGD"})
_RECORDS = "_per_optimizer_states"
"""Where a scaler keeps how far each optimizer has come."""


def forget(machine: Machine, state: State, values: Iterable[Value], name: str = "") -> None:
    """`values` are passed to unseen code: its effect on scalers and optimizers among them is unknown.

    A function whose `name` says that it saves, loads or logs only reads them, and a scheduler sets rates.
    """
    if KEEPS_RECORDS.search(name):
        values = [value for value in values if not isinstance(value, (Scaler, Optimizer))]
    elif SETS_RATES.search(name) or SCHEDULER_CLASS.search(name):
        values = [value for value in values if not isinstance(value, Optimizer)]
    values = list(values)
    if any(isinstance(value, Optimizer) for value in values):
        machine[Obligations].optimizer_escaped = True
    for value in values:
        machine.interactions += isinstance(value, (Scaler, Optimizer, Method))
        if isinstance(value, Scaler) or (isinstance(value, Method) and isinstance(value.owner, Scaler)):
            machine[Obligations].record_escape()
            forget_protocol(state)
            return
        if isinstance(value, Manager):
            forget_gradients(state)
        elif isinstance(value, Optimizer):
            state.change(Progress).gradients[value.symbol] = NO_GRADIENTS
            if machine.statement is not None:
                windows.note(machine, state, Job.RESCALE, machine.statement)
        elif isinstance(value, Items):
            forget(machine, state, value.values)
        elif isinstance(value, (Instance, Unknown)):
            held = state.heap.get(value.symbol, {}).values()
            if any(isinstance(item, (Scaler, Function)) for item in held) or undone.holds_scaler(
                machine, state, value.symbol
            ):
                machine[Obligations].record_escape()
                forget_protocol(state)
                return


def _escape_to_base(machine: Machine, state: State, owner: Value) -> None:
    """A method that `owner` inherits from an unseen base may use what it holds."""
    escaped = machine[Obligations].scaler_escaped
    forget(machine, state, [owner])
    machine[Obligations].escaped_to_base = (
        machine[Obligations].escaped_to_base or machine[Obligations].scaler_escaped != escaped
    )
    machine[Obligations].scaler_escaped = escaped


def forget_protocol(state: State) -> None:
    """Gradients, stages and updates are unknown from here on."""
    used = {known.scaler.symbol for known in state[Progress].gradients.values() if known.scaler is not None}
    state.change(Progress).gradients = dict.fromkeys([ANY_OPTIMIZER, *state[Progress].gradients], NO_GRADIENTS)
    used |= {*(pair[0] for pair in state[Progress].pairs), *state[Progress].scalers}
    for scaler in used:
        state.change(Progress).pairs[scaler, ANY_OPTIMIZER] = Stage(OptState.UNKNOWN)
    state.change(Progress).pairs = {pair: Stage(OptState.UNKNOWN) for pair in state[Progress].pairs}
    state.change(Progress).scalers = {scaler: ScalerState(checked=True) for scaler in used}


def gradient_set(machine: Machine, state: State, value: Value) -> None:
    """`parameter.grad = value`; values computed from gradients keep their scale unless divided by it."""
    symbol = symbol_of(machine, value)
    from_them = machine.symbols.involves(symbol, "attribute", "grad")
    if value != NONE and (not from_them or machine.symbols.involves(symbol, "scale of")):
        forget_gradients(state)


def forget_gradients(state: State) -> None:
    """Unseen code ran backward or changed the gradients."""
    state.change(Progress).gradients = dict.fromkeys([ANY_OPTIMIZER, *state[Progress].gradients], NO_GRADIENTS)
    state[Progress].unskipped = frozenset()


def _scale_of(value: Value) -> int | None:
    """The symbol of the scaler whose scale `value` carries."""
    return value.scaled.symbol if isinstance(value, Tensor) and value.scaled else None


_HOLDERS = frozenset({Scaler, Optimizer, Instance, Unknown})


def _held(value: Value) -> set[int]:
    if isinstance(value, Items):
        return set().union(*(_held(item) for item in value.values))
    return {value.symbol} if type(value) in _HOLDERS else set()  # type: ignore[union-attr]


class Protocol(Tracker):
    """Tracks scalers, optimizers and gradients.

    `scaled` are losses that carry a scale, `plain` these losses without it, and `from_owners` results of methods of
    objects with a scaler. `ran_at` maps each backward pass to the calls that led to it, and `began` is the start of the
    latest call by unseen code. `clipped_by_name` maps clipping calls to their guesses.
    """

    triggers = frozenset({"grad", "zero_grad"})
    decisive = frozenset({Scaler})
    part = Progress

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.scaled: set[int] = set()
        self.plain: dict[int, Value] = {}
        self.idle_scales: set[cst.CSTNode] = set()
        self.from_owners: set[int] = set()
        self.ran_at: dict[cst.CSTNode, set[Sites]] = {}
        self.clipped_by_name: dict[cst.CSTNode, tuple[Guessed, ...]] = {}
        self.began = 0

    def is_older(self, scaler: Scaler) -> bool:
        """Whether a scaler existed before the running call by unseen code, which may have used it."""
        return self.machine.symbols.time(scaler.symbol) < self.began

    def script_begins(self, state: State) -> None:
        """There are no gradients yet."""
        state.change(Progress).gradients[ANY_OPTIMIZER] = CLEARED

    def unseen_call_begins(self, state: State, me: Instance | None) -> None:
        """The gradients, and the state of an object's scalers, are unknown."""
        self.began = self.machine.symbols.tick()
        state.change(Progress).gradients = {ANY_OPTIMIZER: NO_GRADIENTS}
        for value in state.heap.get(me.symbol, {}).values() if me is not None else ():
            if isinstance(value, Scaler):
                state.change(Progress).scalers[value.symbol] = ScalerState(checked=True)

    def function_ends(self, state: State) -> None:
        """Forget unreachable scalers and optimizers of visible construction."""
        progress = state[Progress]
        symbols = {*progress.gradients, *progress.scalers, *(symbol for pair in progress.pairs for symbol in pair)}
        symbols |= {scaler for known in progress.gradients.values() for scaler in known.scalers}
        young = {symbol for symbol in symbols if symbol >= 0 and self.machine.is_created_on_path(symbol)}
        young = {symbol for symbol in young if not frameworks.is_kept(self.machine, symbol)}
        if not young:
            return
        for table in [*state.frames.values(), *state.heap.values()]:
            for value in table.values():
                kind = type(value)
                if kind in _HOLDERS:
                    young.discard(value.symbol)  # type: ignore[union-attr]
                elif kind is Items:
                    young -= _held(value)
            if not young:
                return
        progress = state.change(Progress)
        progress.gradients = {
            key: NO_GRADIENTS if young & known.scalers else known
            for key, known in progress.gradients.items()
            if key not in young
        }
        progress.scalers = {key: known for key, known in progress.scalers.items() if key not in young}
        progress.pairs = {pair: stage for pair, stage in progress.pairs.items() if not young & set(pair)}

    def unrolls(self, element: Value) -> bool:
        """Whether the element is an optimizer or a scaler, each of which has a state of its own."""
        return isinstance(element, (Optimizer, Scaler))

    def forget(self, state: State) -> None:
        """Everything is unknown."""
        forget_protocol(state)

    def escape(self, state: State, values: Iterable[Value]) -> None:
        """Scalers and optimizers among these values may be used."""
        forget(self.machine, state, values)

    def call_skipped(
        self, state: State, function: Function, positional: Sequence[Value], keywords: Mapping[str, Value]
    ) -> None:
        """Scalers whose methods are arguments of a skipped call may be used."""
        given = (*positional, *keywords.values())
        forget(self.machine, state, [value for value in given if isinstance(value, Method)])

    def unseen(self, state: State, call: Call) -> None:
        """An unseen call may use its arguments, and run backward if its name says so."""
        machine, values = self.machine, call.arguments.values
        if call.entered is not None:
            harmless = call.entered == "super" and (call.name in INHERITED_HARMLESS or call.name == "__init__")
            forget(machine, state, values)
            if call.owner is not None and not harmless:
                _escape_to_base(machine, state, call.owner)
            return
        name = call.callee.name.rpartition(".")[2] if isinstance(call.callee, Ref) else last_name(call.node.func)
        if RUNS_BACKWARD.search(name):
            forget_gradients(state)
        elif name == "step" and any(known.clipped for known in state[Progress].gradients.values()):
            state.change(Progress).gradients = each(state[Progress].gradients, lambda one: replace(one, clipped=None))
        elsewhere = isinstance(call.callee, Ref) and call.callee.name.startswith(XLA)
        if elsewhere or (
            isinstance(call.owner, Unknown)
            and name not in _TENSOR_METHODS
            and machine.symbols.derives_from(call.owner.symbol, self.from_owners)
        ):
            machine.interactions += 1
            forget_protocol(state)
        if call.inherited and call.owner is not None and not only_computes(name):
            _escape_to_base(machine, state, call.owner)
        forget(machine, state, values, name)

    def call_resolved(self, state: State, call: Call) -> None:
        """An optimizer that wraps another one clears its gradients."""
        if isinstance(call.callee, Method) and call.callee.function is not None and call.callee.name == "zero_grad":
            owner = call.callee.owner
            if isinstance(owner, Instance) and owner.symbol in state[Progress].gradients:
                state.change(Progress).gradients[owner.symbol] = CLEARED

    def entered_returns(self, state: State, call: Call, result: Value) -> None:
        """The result of a method of an object with a scaler may be an optimizer that steps through that scaler."""
        if call.entered == "method" and isinstance(call.callee, Method) and isinstance(result, Unknown):
            owner = call.callee.owner
            held = state.heap.get(owner.symbol, {}).values() if isinstance(owner, Instance) else ()
            if any(isinstance(value, Scaler) for value in held):
                self.from_owners.add(result.symbol)

    def kind_of(self, value: Unknown, path: str, kind: str) -> Value | None:
        """The scaler or optimizer that an unknown value is, by its use."""
        if self.machine.symbols.derives_from(value.symbol, self.from_owners):
            return None
        if kind == SCALER:
            return as_scaler(self.machine, value)
        if kind not in OPTIMIZERS:
            return None
        self.machine.record_guesses(value.symbol, OPTIMIZER_NAME.guesses(path) if kind == NAMED_OPTIMIZER else ())
        return Optimizer(value.symbol)

    def annotated_value(self, symbol: int, name: str) -> Value | None:
        """A scaler or an optimizer by its annotation."""
        if name in GRAD_SCALERS:
            return Scaler(symbol, self.machine.unknown("enabled", parts=(symbol,)), cls=name)
        return Optimizer(symbol) if name == ANY_OPTIMIZER_CLASS or is_optimizer(name) else None

    def rebound_result(self, node: cst.Call, before: Value) -> Value | None:
        """A function that modifies and returns an optimizer or scaler returns the same one; only a class wraps it."""
        called = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        wraps = not isinstance(called, cst.Name) or called.value[:1].isupper()
        return before if isinstance(before, (Optimizer, Scaler)) and not wraps else None

    def join(self, left: Value, right: Value) -> Value | None:
        """Join optimizers, their classes or scalers to one, a loss and its scaled one to one that may be scaled."""
        machine = self.machine
        if isinstance(left, Ref) and isinstance(right, Ref):
            classes = {left.name, right.name} - {ANY_OPTIMIZER_CLASS}
            return Ref(ANY_OPTIMIZER_CLASS) if classes and all(map(is_optimizer, classes)) else None
        if isinstance(left, Optimizer) and isinstance(right, Optimizer):
            owner = left.owner if left.owner == right.owner else None
            cls = left.cls if left.cls == right.cls else ""
            return Optimizer(machine.joined_symbol(left, right), cls, owner, left.loops)
        if isinstance(left, Scaler) and isinstance(right, Scaler):
            symbol, cls = machine.joined_symbol(left, right), left.cls if left.cls == right.cls else ""
            enabled = left.enabled if left.enabled == right.enabled else machine.unknown("enabled", parts=(symbol,))
            return Scaler(symbol, enabled, left.created, left.loops, cls)
        if _scale_of(left) != _scale_of(right):
            return Tensor(machine.symbols.intern("either", left, right), traits=frozenset({PERHAPS_SCALED}))
        return None

    def joined(self, left: Value, right: Value, joint: Value) -> None:
        """Two optimizers joined to one."""
        if isinstance(left, Optimizer) and isinstance(right, Optimizer) and isinstance(joint, Optimizer):
            self.machine[Owners].known.setdefault(joint.symbol, joint.owner)

    def explores(self, value: Value) -> bool:
        """Scalers, optimizers and scaled losses have a state of their own."""
        return isinstance(value, (Scaler, Optimizer)) or _scale_of(value) is not None

    def differ_in_kind(self, left: Value, right: Value) -> bool:
        """Losses with the scale of different scalers, or one without, are kept apart."""
        return _scale_of(left) != _scale_of(right)

    def set_elsewhere(self, value: Value) -> Value | None:
        """The loops around the construction of a scaler or optimizer in another method are unknown here."""
        if isinstance(value, Optimizer):
            return replace(value, loops=None)
        return replace(value, loops=()) if isinstance(value, Scaler) else None

    def owns_attribute(self, target: cst.Attribute) -> bool:
        """Gradients are tracked apart from other attributes."""
        return target.attr.value == "grad"

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """`parameter.grad = value`."""
        if target.attr.value == "grad":
            windows.note(self.machine, state, Job.RESCALE, target)
            gradient_set(self.machine, state, value)
        return None

    def attribute_read(self, state: State, owner: Value, name: str) -> None:
        """Code that reads the scaler's internal records may take other paths than it seems."""
        if isinstance(owner, Scaler) and name == _RECORDS:
            forget(self.machine, state, [owner])
            if self.machine.statement is not None:
                self.machine.emit(state, ScalerRecordsRead, self.machine.statement, scaler=owner)

    def augmented(self, state: State, node: cst.AugAssign, before: Value, other: Value) -> Value | None:
        """`parameter.grad *= other`."""
        if isinstance(node.target, cst.Attribute) and node.target.attr.value == "grad":
            windows.note(self.machine, state, Job.RESCALE, node)
            if self.machine.symbols.involves(symbol_of(self.machine, other), "scale of"):
                forget_gradients(state)
            elif isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign)):
                gradients_read(self.machine, state, node, before, "changed", mutates=True)
        return None

    def condition_assumed(self, state: State, value: Value, holds: bool) -> None:
        """If no parameter has a gradient, there is nothing to step with."""
        if not holds and self._is_any_gradient(value):
            forget_gradients(state)

    def _is_any_gradient(self, value: Value) -> bool:
        """Whether `value` is `any(parameter.grad is not None ...)`."""
        symbols = self.machine.symbols
        if not isinstance(value, Unknown) or symbols.key(value.symbol)[:2] != ("call", "builtins.any"):
            return False
        return symbols.involves(value.symbol, "attribute", "grad")

    def must_follow(self, state: State, function: Function, given: Sequence[Value]) -> bool:
        """A function that is given a scaled loss, or one of the linted file that makes an optimizer of what it gets."""
        if any(_scale_of(value) is not None for value in given):
            return True
        ours = function.chunk.source is self.machine.program.main
        return ours and not function.chunk.words.isdisjoint(_MAKES_OPTIMIZERS)

    def resumes(self, function: cst.CSTNode) -> bool:
        """Whether a generator contains calls of the protocol."""
        return any(isinstance(node, cst.Attribute) and node.attr.value in _METHODS for node in walk(function))
