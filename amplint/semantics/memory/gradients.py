"""Transfer functions for one optimizer's gradients: backward accumulates, a step consumes, clearing resets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from amplint.semantics.events import Gradients, GradState
from amplint.semantics.values.values import Scaler
from amplint.source import syntax as cst

NO_GRADIENTS = Gradients(GradState.UNKNOWN)
CLEARED = Gradients(GradState.NONE)
MIXED = Gradients(GradState.MIXED)


def added(before: Gradients, fresh: Gradients, alone: bool) -> Gradients:
    """The gradients after a backward pass adds `fresh` ones to those `before`.

    The pass may be for another optimizer unless this one is `alone`: if its gradients differed in scale before, the
    result is mixed.
    """
    if before.consumed is not None:
        return fresh
    if alone:
        earlier = tuple(one for one in before.passes if _pass_key(one) != _pass_key(fresh))
        return replace(fresh, earlier=earlier)
    return MIXED if _disturbs(before, fresh.scaler) else fresh


def _disturbs(before: Gradients, scaler: Scaler | None) -> bool:
    if scaler is None:
        return before.state is GradState.SCALED
    return before.state in (GradState.RAW, GradState.UNSCALED) or (
        before.state is GradState.SCALED and not before.carries(scaler) and before.outdated is None
    )


def unscaled(before: Gradients, scaler: Scaler, refused: bool) -> Gradients:
    """`before` divided by the scale; gradients made invalid by that are dropped, and mixed if none are left.

    Gradients that code out of sight computed are taken to carry it. If PyTorch has `refused` the call, scaled gradients
    become unscaled and others are kept.
    """
    if before.consumed is not None:
        return before
    if before.state is GradState.UNKNOWN and before.manager is None and not refused:
        return Gradients(GradState.UNSCALED, scaler)
    kept = []
    for one in before.passes:
        if one.state is GradState.SCALED and (refused or (one.carries(scaler) and one.outdated is None)):
            kept.append(replace(one, state=GradState.UNSCALED, outdated=None))
        elif refused:
            kept.append(one)
    return _together(kept) if before.passes else before


def used(before: Gradients, node: cst.CSTNode) -> Gradients:
    """`before`, consumed by a step at `node`."""
    if before.state in (GradState.NONE, GradState.MIXED):
        return before
    return replace(before, consumed=node, earlier=tuple(replace(one, consumed=node) for one in before.earlier))


def taken(before: Gradients, raw: Set[cst.CSTNode]) -> Gradients:
    """`before`, after another optimizer has stepped with the gradients of the plain passes `raw`."""
    if before.consumed is not None or not any(one.raw in raw for one in before.passes):
        return before
    return _together([replace(one, taken=one.taken or one.raw in raw) for one in before.passes])


def outdated(before: Gradients, scaler: Scaler, node: cst.CSTNode) -> Gradients:
    """`before` after the `update` at `node`, which may have changed the scale."""
    if before.consumed is not None or not any(one.carries(scaler) for one in before.passes):
        return before
    return _together([replace(one, outdated=node) if one.carries(scaler) else one for one in before.passes])


def each(optimizers: Mapping[int, Gradients], change: Callable[[Gradients], Gradients]) -> dict[int, Gradients]:
    """The results of `change` on the gradients of `optimizers`, computed once for those that share them."""
    shared = {id(gradients): gradients for gradients in optimizers.values()}
    changed = {key: change(gradients) for key, gradients in shared.items()}
    return {optimizer: changed[id(gradients)] for optimizer, gradients in optimizers.items()}


def waiting(gradients: Gradients) -> bool:
    """Whether a pass has left gradients that no step has consumed."""
    return any(one.consumed is None for one in gradients.passes)


def certainty(gradients: Gradients) -> int:
    """How much is known of gradients: of cleared ones all, of mixed ones nothing."""
    return {GradState.NONE: 2, GradState.MIXED: 0}.get(gradients.state, 1)


def may_wait(gradients: Gradients) -> bool:
    """Whether a pass has left gradients that no step has consumed, as far as is known."""
    unknown = gradients.state in (GradState.UNKNOWN, GradState.MIXED) and gradients.manager is None
    return waiting(gradients) or (unknown and gradients.consumed is None)


def carrying(gradients: Gradients) -> Gradients:
    """The latest pass with scaled gradients; the latest of all without one."""
    scaled = (one for one in gradients.passes if one.state is GradState.SCALED)
    return next(scaled, gradients)


def _together(passes: Sequence[Gradients]) -> Gradients:
    if not passes:
        return MIXED
    return replace(passes[0], earlier=tuple(replace(one, earlier=()) for one in passes[1:]))


def _pass_key(gradients: Gradients) -> tuple[object, ...]:
    return (
        gradients.state,
        gradients.scaler and gradients.scaler.symbol,
        gradients.outdated is not None,
        gradients.discarded is not None,
        gradients.taken,
    )


def gradients_key(gradients: Gradients, meeting: bool = False) -> tuple[object, ...]:
    """The key of gradients: what rules can distinguish; as paths are `meeting`, cleared and mixed ones are unknown."""
    earlier = frozenset((*_pass_key(one), one.raw) for one in gradients.earlier)
    facts = gradients.raw, gradients.outdated, gradients.manager, gradients.clipped
    state, *more = _pass_key(gradients)
    if meeting and state in (GradState.NONE, GradState.MIXED):
        state = GradState.UNKNOWN
    return (state, *more, *facts, gradients.consumed is not None, earlier)
