"""What becomes of one optimizer's gradients: backward passes add up until a step uses them or they are cleared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from amplint.semantics.events import Gradients, GradState
from amplint.semantics.values.values import Scaler
from amplint.source import syntax as cst

NO_GRADIENTS = Gradients(GradState.UNKNOWN)
CLEARED = Gradients(GradState.NONE)


def added(before: Gradients, fresh: Gradients, alone: bool) -> Gradients:
    """What a backward pass leaves that adds `fresh` gradients to what was there before.

    An optimizer that is not `alone` need not be the one the pass was meant for: where its gradients carried something
    else before, nothing is known of them.
    """
    if before.consumed is not None:
        return fresh
    if alone:
        earlier = tuple(one for one in before.passes if _fate(one) != _fate(fresh))
        return replace(fresh, earlier=earlier)
    return NO_GRADIENTS if _disturbs(before, fresh.scaler) else fresh


def _disturbs(before: Gradients, scaler: Scaler | None) -> bool:
    if scaler is None:
        return before.state is GradState.SCALED
    return before.state in (GradState.RAW, GradState.UNSCALED) or (
        before.state is GradState.SCALED and not before.carries(scaler) and before.outdated is None
    )


def unscaled(before: Gradients, scaler: Scaler, refused: bool) -> Gradients:
    """`before` divided by the scale; what that spoils is not looked at again.

    Where PyTorch has `refused`, the call is taken to do no more than it is for.
    """
    if before.consumed is not None:
        return before
    kept = []
    for one in before.passes:
        if one.state is GradState.SCALED and (refused or (one.carries(scaler) and one.outdated is None)):
            kept.append(replace(one, state=GradState.UNSCALED, outdated=None))
        elif refused:
            kept.append(one)
    return _together(kept) if before.passes else before


def used(before: Gradients, node: cst.CSTNode) -> Gradients:
    """`before` once a step at `node` has used them."""
    if before.state is GradState.NONE:
        return before
    return replace(before, consumed=node, earlier=tuple(replace(one, consumed=node) for one in before.earlier))


def outdated(before: Gradients, scaler: Scaler, node: cst.CSTNode) -> Gradients:
    """`before` once the `update` at `node` may have changed the scale."""
    if before.consumed is not None or not any(one.carries(scaler) for one in before.passes):
        return before
    return _together([replace(one, outdated=node) if one.carries(scaler) else one for one in before.passes])


def each(optimizers: Mapping[int, Gradients], change: Callable[[Gradients], Gradients]) -> dict[int, Gradients]:
    """What `change` makes of the gradients of `optimizers`, once for all that share theirs."""
    shared = {id(gradients): gradients for gradients in optimizers.values()}
    changed = {key: change(gradients) for key, gradients in shared.items()}
    return {optimizer: changed[id(gradients)] for optimizer, gradients in optimizers.items()}


def waiting(gradients: Gradients) -> bool:
    """Whether a pass has left gradients that no step has used."""
    return any(one.consumed is None for one in gradients.passes)


def carrying(gradients: Gradients) -> Gradients:
    """The latest pass whose gradients carry the scale, the latest at all where none does."""
    scaled = (one for one in gradients.passes if one.state is GradState.SCALED)
    return next(scaled, gradients)


def _together(passes: Sequence[Gradients]) -> Gradients:
    if not passes:
        return NO_GRADIENTS
    return replace(passes[0], earlier=tuple(replace(one, earlier=()) for one in passes[1:]))


def _fate(gradients: Gradients) -> tuple[object, ...]:
    return (
        gradients.state,
        gradients.scaler and gradients.scaler.symbol,
        gradients.outdated is not None,
        gradients.discarded is not None,
    )


def essence(gradients: Gradients) -> tuple[object, ...]:
    """What rules can tell apart."""
    earlier = frozenset((*_fate(one), one.raw) for one in gradients.earlier)
    told = gradients.raw, gradients.outdated, gradients.manager, gradients.clipped
    return (*_fate(gradients), *told, gradients.consumed is not None, earlier)
