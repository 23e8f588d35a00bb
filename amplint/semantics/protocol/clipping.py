"""Reads and changes of gradients: clipping, norms and hand-written arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from amplint.findings import Guessed
from amplint.semantics.accumulation import boundaries
from amplint.semantics.events import ClippedEarly, GradientUse, GradState, OptState, Stage
from amplint.semantics.memory.gradients import carrying
from amplint.semantics.memory.progress import ANY_OPTIMIZER, READY, Owners, Progress, gradients_of, stage_of
from amplint.semantics.memory.scaling import Scaling
from amplint.semantics.memory.undone import Obligations
from amplint.semantics.protocol import independence
from amplint.semantics.protocol.optimizers import has_another, held_optimizers
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Optimizer, Value
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.torchlib.frameworks import UNSCALED_IN


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
            premises=independence.unseen(machine, state, node, "unscale_", gradients.backward, scaler),
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
    ran = machine[Scaling].ran_at.get(backward) if backward is not None else None
    if ran is None or machine.sites in ran or not machine.calls:
        return False
    return any(inner is backward for inner in every(machine.calls[-1], cst.Call))


def _clipped_of(machine: Machine, state: State, target: Value) -> tuple[list[int], list[int], list[int]]:
    """The used optimizers that `target` belongs to, and its optimizers not used yet."""
    known = [key for key in state[Progress].gradients if key != ANY_OPTIMIZER]
    owner = _owner(machine, target)
    matched = [key for key in known if owner is not None and owner in (key, _owners(machine, key))]
    unused = [
        one.symbol for one in held_optimizers(state) if owner is not None and owner == _owners(machine, one.symbol)
    ]
    return known, matched, unused


def has_optimizer(machine: Machine, state: State, target: Value) -> bool:
    """Whether `target` is known to belong to an optimizer, as the model whose parameters it got does."""
    _, matched, unused = _clipped_of(machine, state, target)
    return bool(matched or unused)


def clipped_by_name(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    target: Value,
    guesses: tuple[Guessed, ...],
    is_function: bool,
) -> None:
    """A call that by its name clips the gradients of `target`, subject to these `guesses`, returned.

    An imported function, unlike a method, has no scaler but one that it is passed.
    """
    known, matched, unused = _clipped_of(machine, state, target)
    machine[Scaling].clipped_by_name[node] = guesses
    if not is_function:
        machine[Scaling].may_unscale.add(node)
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


def clipped_early(machine: Machine, state: State, node: cst.Call, optimizer: Optimizer, stage: Stage) -> None:
    """The first call that unscales gradients, at `node`, follows a call that clipped them."""
    known = {key for key in state[Progress].gradients if key != ANY_OPTIMIZER} | {optimizer.symbol}
    gradients = gradients_of(machine, state, optimizer.symbol)
    clipped = gradients.clipped if gradients.consumed is None else None
    if clipped is None or stage.refuses or has_another(machine, state, known) or _is_in_handler(machine, clipped):
        return
    certain = _is_unscale(node)
    guesses = machine[Scaling].clipped_by_name.get(clipped, ())
    if clipped in machine[Scaling].may_unscale and not certain:
        return
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
