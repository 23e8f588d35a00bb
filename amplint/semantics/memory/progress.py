"""Progress of the gradient scaling protocol on a path."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from amplint.records import dataclass
from amplint.semantics.events import Gradients, GradState, OptState, Stage
from amplint.semantics.memory.gradients import NO_GRADIENTS, certainty, gradients_key
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.regions.innermost import is_off
from amplint.semantics.values.state import Iteration, Part, State, rounds_since, same_iteration, shared_rounds
from amplint.semantics.values.values import Scaler, Value
from amplint.source import syntax as cst

Key = TypeVar("Key")
Timed = TypeVar("Timed", Stage, "ScalerState")

ANY_OPTIMIZER = -1
_NOTHING = False, None, False, None, None


@dataclass(frozen=True, slots=True)
class ScalerState:
    """The state of a scaler since its last `update`, that call, and its loop iteration.

    An `older` scaler existed before the running call by unseen code. `overflowed` is the condition for which the path
    dropped gradients that have overflowed.
    """

    checked: bool = False
    latest: cst.CSTNode | None = None
    updated: cst.CSTNode | None = None
    iteration: tuple[int, ...] = ()
    older: bool = False
    overflowed: cst.CSTNode | None = None

    def key(self, now: Iteration) -> Hashable:
        """What rules can distinguish in the iteration `now`; None where that is nothing."""
        recency = _recency(self.iteration, now) if self.updated is not None else None
        what = self.checked, self.latest, self.older, self.overflowed, recency
        return what if what != _NOTHING else None


class Progress(Part):
    """The stages of pairs of scalers and optimizers, the scalers, and the gradients of optimizers.

    `spent` is the loss whose graph the latest pass on a scaled one has used up, and that pass. `unskipped` are the
    optimizers that, since the latest pass, have stepped by themselves on gradients of a scaled loss.
    """

    __slots__ = ("_cached_keys", "gradients", "pairs", "scalers", "spent", "unskipped")

    def __init__(self) -> None:
        self.pairs: dict[tuple[int, int], Stage] = {}
        self.scalers: dict[int, ScalerState] = {}
        self.gradients: dict[int, Gradients] = {}
        self.spent: tuple[Value, cst.CSTNode] | None = None
        self.unskipped: frozenset[int] = frozenset()
        self._cached_keys: dict[tuple[Iteration, bool], Hashable] = {}

    def changes(self) -> None:
        """Invalidate the keys."""
        self._cached_keys = {}

    def copy(self) -> Progress:
        """An independent continuation."""
        twin = Progress.__new__(Progress)
        twin.pairs = dict(self.pairs)
        twin.scalers = dict(self.scalers)
        twin.gradients = dict(self.gradients)
        twin.spent = self.spent
        twin.unskipped = self.unskipped
        twin._cached_keys = {}
        return twin

    def key(self, now: Iteration) -> Hashable:
        """What rules can distinguish, computed once per iteration."""
        return self._key(now, False)

    def meeting_key(self, now: Iteration) -> Hashable:
        """The key with cleared gradients as unknown ones: rules report the former where they are so on every path."""
        return self._key(now, True)

    def _key(self, now: Iteration, meeting: bool) -> Hashable:
        found = self._cached_keys.get((now, meeting))
        if found is None:
            found = self._cached_keys[now, meeting] = self._compute_key(now, meeting)
        return found

    def _compute_key(self, now: Iteration, meeting: bool) -> Hashable:
        return (
            frozenset(
                (pair, stage.state, stage.unchecked, rounds_since(stage.iteration, now))
                for pair, stage in self.pairs.items()
            ),
            frozenset((scaler, key) for scaler, known in self.scalers.items() if (key := known.key(now)) is not None),
            self.unskipped,
            *self._gradient_classes(meeting),
        )

    def _gradient_classes(self, meeting: bool) -> tuple[object, frozenset[object]]:
        """The key of any optimizer's gradients, and the equivalence classes of the other optimizers by theirs.

        Many optimizers share the gradients of a backward pass, and each key is slow to compute and to hash.
        """
        ambient = gradients_key(self.gradients.get(ANY_OPTIMIZER, NO_GRADIENTS), meeting)
        alike: dict[int, tuple[Gradients, list[int]]] = {}
        for optimizer, gradients in self.gradients.items():
            alike.setdefault(id(gradients), (gradients, []))[1].append(optimizer)
        grouped: dict[tuple[object, ...], list[int]] = {}
        for gradients, optimizers in alike.values():
            grouped.setdefault(gradients_key(gradients, meeting), []).extend(optimizers)
        grouped.pop(ambient, None)
        return ambient, frozenset((one, frozenset(optimizers)) for one, optimizers in grouped.items())

    def knows_more(self, other: Progress) -> bool:
        """Whether more is known of some gradients than in `other`."""
        return bool(self._known_less(other))

    def symbols(self) -> Iterable[int]:
        """Scalers and optimizers."""
        return (*self.gradients, *self.scalers, *(symbol for pair in self.pairs for symbol in pair))

    def joined(self, other: Progress) -> Progress:
        """The same progress; a graph is used up, and gradients are cleared, if they are on both paths."""
        unknown = self._known_less(other)
        if self.spent is other.spent and not unknown and other.scalers.keys() <= self.scalers.keys():
            return self
        twin = self.copy()
        twin.spent = self.spent if self.spent is other.spent else None
        twin.scalers = {**other.scalers, **self.scalers}
        twin.gradients.update(unknown)
        return twin

    def _known_less(self, other: Progress) -> dict[int, Gradients]:
        """The gradients of the `other` path of which less is known there; here they are cleared, for instance."""
        mine, theirs = (one.gradients.get(ANY_OPTIMIZER, NO_GRADIENTS) for one in (self, other))
        pairs = {
            key: (self.gradients.get(key, mine), other.gradients.get(key, theirs))
            for key in self.gradients.keys() | other.gradients.keys()
        }
        return {
            key: unknown
            for key, (known, unknown) in pairs.items()
            if known is not unknown and certainty(known) > certainty(unknown)
        }

    def joined_with(self, other: Progress) -> Progress:
        """The join in which whatever differs is unknown."""
        blurred = self.copy()
        blurred.spent = self.spent if self.spent is other.spent else None
        blurred.unskipped = self.unskipped & other.unskipped
        for pair in self.pairs.keys() | other.pairs.keys():
            ours, theirs = self.pairs.get(pair), other.pairs.get(pair)
            if ours is None or theirs is None or ours.state is not theirs.state:
                blurred.pairs[pair] = Stage(OptState.UNKNOWN)
        for optimizer in self.gradients.keys() | other.gradients.keys():
            ours_g, theirs_g = self.gradients.get(optimizer), other.gradients.get(optimizer)
            if ours_g is None or theirs_g is None or gradients_key(ours_g) != gradients_key(theirs_g):
                blurred.gradients[optimizer] = NO_GRADIENTS
        for scaler in self.scalers.keys() | other.scalers.keys():
            known = self.scalers.get(scaler, ScalerState())
            if known != other.scalers.get(scaler, ScalerState()):
                blurred.scalers[scaler] = replace(known, checked=True, overflowed=None)
        return blurred

    def continued(self, now: Progress, before: Progress, then: Iteration, here: Iteration) -> Progress:
        """The progress with iteration `then` replaced by `here`."""
        twin = self.copy()
        twin.pairs = _timed(now.pairs, before.pairs, self.pairs, then, here)
        twin.scalers = _timed(now.scalers, before.scalers, self.scalers, then, here)
        return twin


def _recency(then: tuple[int, ...], now: tuple[int, ...]) -> tuple[bool, int]:
    """Whether a call belongs to the present iteration, and its loop depth; the age of others does not matter."""
    shared = shared_rounds(then, now)
    return (True, shared) if shared == len(then) else (same_iteration(then, now), -1)


def _timed(
    now: Mapping[Key, Timed], before: Mapping[Key, Timed], end: Mapping[Key, Timed], then: Iteration, here: Iteration
) -> dict[Key, Timed]:
    """The entries at the `end` of a call in iteration `then`, as if it had been in `here`."""
    found: dict[Key, Timed] = {}
    for key, known in end.items():
        iteration = _moved(known.iteration, then, here)
        unchanged = key in now and known is before.get(key)
        found[key] = now[key] if unchanged else replace(known, iteration=iteration)
    return found


def _moved(iteration: Iteration, then: Iteration, here: Iteration) -> Iteration:
    shared = shared_rounds(iteration, then)
    return (*here[:shared], *iteration[shared:])


def gradients_of(machine: Machine, state: State, optimizer: int) -> Gradients:
    """The gradients of an optimizer on a path."""
    known = state[Progress].gradients
    return on_path(machine, state, known.get(optimizer, known.get(ANY_OPTIMIZER, NO_GRADIENTS)))


def on_path(machine: Machine, state: State, known: Gradients) -> Gradients:
    """The `known` gradients under the facts of a path: a disabled scaler has no scale."""
    if known.scaler is not None and is_off(machine, state, known.scaler.enabled):
        return Gradients(GradState.RAW, backward=known.backward, consumed=known.consumed, raw=known.backward)
    if any(one.scaler is not None for one in known.earlier):
        on = [one for one in known.earlier if one.scaler is None or not is_off(machine, state, one.scaler.enabled)]
        return replace(known, earlier=tuple(on)) if len(on) < len(known.earlier) else known
    return known


def stage_of(state: State, scaler: Scaler, optimizer: int) -> Stage:
    """The stage of a pair. One never seen is READY for a scaler constructed here, else unknown only if forgotten."""
    return state[Progress].pairs.get(
        (scaler.symbol, optimizer), state[Progress].pairs.get((scaler.symbol, ANY_OPTIMIZER), READY)
    )


READY = Stage(OptState.READY)


def scaler_state(state: State, scaler: Scaler) -> ScalerState:
    """The state of `scaler` on a path."""
    return state[Progress].scalers.get(scaler.symbol, ScalerState())


class Owners(Tracker):
    """The model whose parameters each optimizer was constructed for, by symbol; None if that is unknown."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.known: dict[int, int | None] = {}
