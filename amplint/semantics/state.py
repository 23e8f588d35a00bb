"""What is true at one point of one execution path, and how two paths become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace

import libcst as cst

from amplint.semantics.events import Gradients, OptState, Stage, Step, Work
from amplint.semantics.facts import Fact, Facts
from amplint.semantics.gradients import NO_GRADIENTS, essence
from amplint.semantics.values import (
    Autocast,
    Const,
    Function,
    GradMode,
    Instance,
    Items,
    Manager,
    Neutral,
    NewThread,
    Opaque,
    Optimizer,
    Partial,
    Ref,
    Scaler,
    Tensor,
    Unknown,
    Value,
)
from amplint.torchlib.names import AUTOCASTS, DTYPES, NEUTRAL_CONTEXTS, is_precision

Either = Callable[[Value, Value], Value]
MODULE_FRAME = 0
RESULT = "<result>"
"""The variable that holds what a call returned while its paths are joined."""
STEPS_KEPT = 16
"""How many of the latest steps of a path are told."""
ANY_OPTIMIZER = -1
NEXT_ROUND = -1
"""Stands for an iteration that has not begun."""


@dataclass(frozen=True, slots=True)
class Region:
    """An entered context and the `with` statement, decorator or call that entered it."""

    context: Autocast | GradMode | Opaque | NewThread
    entered_by: cst.CSTNode


@dataclass(frozen=True, slots=True)
class Ran:
    """An autocast region under which work was done, and what the path assumed whenever it was."""

    context: Autocast
    facts: Mapping[int | tuple[str, int], Const]


@dataclass(frozen=True, slots=True)
class Trail:
    """The steps so far, newest first; a chain, so that paths share what they have in common.

    `branch` marks a decision at a condition, forgotten when both its outcomes turn out alike. It has no message
    where what is known of the path has decided it.
    """

    step: Step
    before: Trail | None
    length: int
    branch: bool = False


@dataclass(frozen=True, slots=True)
class ScalerState:
    """What has happened with a scaler since its last `update`, which one that was, and in which loop iteration."""

    checked: bool = False
    latest: cst.CSTNode | None = None
    updated: cst.CSTNode | None = None
    iteration: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """What made a model's parameters float16 or bfloat16, and what sharded them."""

    half: cst.CSTNode | None = None
    sharded: cst.CSTNode | None = None
    bfloat16: cst.CSTNode | None = None

    def traits(self) -> tuple[bool, ...]:
        """What is known of the model, whatever brought it about."""
        return (self.half is None, self.sharded is None, self.bfloat16 is None)


class State:
    """Variables, attributes, assumptions, regions and the protocol's progress on one path. Copies are shallow."""

    __slots__ = (
        "facts", "frame", "frames", "gradients", "heap", "iteration", "models", "pairs", "ran", "regions", "scalers",
        "trail", "work",
    )  # fmt: skip

    def __init__(self) -> None:
        """What is assumed: `facts` maps a symbol to its truth, ("is none", symbol) and others to more."""
        self.frames: dict[int, dict[str, Value]] = {MODULE_FRAME: {}}
        self.frame = MODULE_FRAME
        self.heap: dict[int, dict[str, Value]] = {}
        self.facts: dict[Fact, Const] = {}
        self.regions: tuple[Region, ...] = ()
        self.pairs: dict[tuple[int, int], Stage] = {}
        self.scalers: dict[int, ScalerState] = {}
        self.gradients: dict[int, Gradients] = {}
        self.models: dict[int, Model] = {}
        self.ran: tuple[Ran, ...] = ()
        self.trail: Trail | None = None
        self.iteration: tuple[int, ...] = ()
        self.work: tuple[Work, ...] = ()

    def copy(self) -> State:
        """An independent continuation of this path."""
        twin = State.__new__(State)
        twin.frames = dict(self.frames)
        twin.frame = self.frame
        twin.heap = dict(self.heap)
        twin.facts = dict(self.facts)
        twin.regions = self.regions
        twin.pairs = dict(self.pairs)
        twin.scalers = dict(self.scalers)
        twin.gradients = dict(self.gradients)
        twin.models = self.models
        twin.ran = self.ran
        twin.trail = self.trail
        twin.iteration = self.iteration
        twin.work = self.work
        return twin

    def become(self, other: State) -> None:
        """Continue as `other`."""
        for name in State.__slots__:
            setattr(self, name, getattr(other, name))

    def bind(self, frame: int, name: str, value: Value) -> None:
        """Set a variable of `frame`."""
        self.frames[frame] = {**self.frames.get(frame, {}), name: value}

    def set_attribute(self, symbol: int, name: str, value: Value) -> None:
        """Set an attribute of the object `symbol`."""
        self.heap[symbol] = {**self.heap.get(symbol, {}), name: value}

    def note(self, node: cst.CSTNode, message: str, branch: bool = False) -> None:
        """Remember a step for the messages."""
        length = self.trail.length + 1 if self.trail else 1
        self.trail = Trail((node, message), self.trail, length, branch)

    def progress(self, next_round: bool = False) -> tuple[object, ...]:
        """What rules can tell apart: where it is equal, the same reports follow from here or from the next round."""
        now = (*self.iteration, NEXT_ROUND) if next_round else self.iteration
        return (
            self.regions,
            frozenset(
                (pair, stage.state, stage.unchecked, rounds_since(stage.iteration, now))
                for pair, stage in self.pairs.items()
            ),
            frozenset(
                (scaler, known.checked, known.latest, known.updated is not None and _lately(known.iteration, now))
                for scaler, known in self.scalers.items()
            ),
            *self._gradient_classes(),
            frozenset((symbol, *model.traits()) for symbol, model in self.models.items()),
        )

    def _gradient_classes(self) -> tuple[object, frozenset[object]]:
        """The essence of any optimizer's gradients, and the equivalence classes of the other optimizers by theirs.

        Many optimizers share what a backward pass left, and each essence is slow to make and to hash.
        """
        ambient = essence(self.gradients.get(ANY_OPTIMIZER, NO_GRADIENTS))
        alike: dict[int, tuple[Gradients, list[int]]] = {}
        for optimizer, gradients in self.gradients.items():
            alike.setdefault(id(gradients), (gradients, []))[1].append(optimizer)
        told: dict[tuple[object, ...], list[int]] = {}
        for gradients, optimizers in alike.values():
            told.setdefault(essence(gradients), []).extend(optimizers)
        told.pop(ambient, None)
        return ambient, frozenset((one, frozenset(optimizers)) for one, optimizers in told.items())

    def drop_dead(self, made_here: Callable[[int], bool], result: Value) -> None:
        """Forget the protocol of scalers and optimizers that were made in sight and that nothing holds any more."""
        symbols = {*self.gradients, *self.scalers, *(symbol for pair in self.pairs for symbol in pair)}
        symbols |= {scaler for known in self.gradients.values() for scaler in known.scalers}
        young = {symbol for symbol in symbols if symbol >= 0 and made_here(symbol)}
        if not young:
            return
        young -= _held(result)
        for table in [*self.frames.values(), *self.heap.values()]:
            for value in table.values():
                kind = type(value)
                if kind in _HOLDERS:
                    young.discard(value.symbol)  # type: ignore[union-attr]
                elif kind is Items:
                    young -= _held(value)
            if not young:
                return
        self.gradients = {
            key: NO_GRADIENTS if young & known.scalers else known
            for key, known in self.gradients.items()
            if key not in young
        }
        self.scalers = {key: known for key, known in self.scalers.items() if key not in young}
        self.pairs = {pair: stage for pair, stage in self.pairs.items() if not young & set(pair)}


_HOLDERS = frozenset({Scaler, Optimizer, Instance, Unknown})


def _held(value: Value) -> set[int]:
    if isinstance(value, Items):
        return set().union(*(_held(item) for item in value.values))
    return {value.symbol} if type(value) in _HOLDERS else set()  # type: ignore[union-attr]


def rounds_since(then: tuple[int, ...], now: tuple[int, ...]) -> tuple[int, int]:
    """How many of the iterations around a call are still going on, and how many there were."""
    return shared_rounds(then, now), len(then)


def _lately(then: tuple[int, ...], now: tuple[int, ...]) -> tuple[bool, int]:
    """Whether a call belongs to what is going on, and in how deep a loop; how long ago others were is all the same."""
    shared = shared_rounds(then, now)
    return (True, shared) if shared == len(then) else (same_iteration(then, now), -1)


def shared_rounds(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many of the loop rounds around two calls they have in common."""
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return shared


def same_iteration(then: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Whether one of two calls stands in the other's iteration."""
    shared = min(len(then), len(now))
    return then[:shared] == now[:shared]


def merge(states: list[State], limit: int, names: Set[str], either: Either, exact: bool = False) -> list[State]:
    """The same paths with equal ones joined, and at most `limit` of them.

    Paths are joined when the protocol stands alike and no flag or context among the `names` that decide differs; what
    does differ becomes what `either` makes of both. An `exact` join also keeps paths apart whose conditions depend on
    each other. Where more than `limit` remain, these, flags and contexts are forgotten too, and at last the protocol
    itself.
    """
    if len(states) < 2:
        return states
    kept = _join_alike(states, names, either, exact)
    if exact and len(kept) > limit:
        kept = _join_alike(kept, names, either)
    if len(kept) > limit:
        kept = _join_alike(kept, None, either)
    while len(kept) > limit:
        last = kept.pop()
        kept[-1] = _join(_without_protocol(kept[-1], last), last, None, either) or kept[-1]
    return kept


def _join_alike(states: Iterable[State], names: Set[str] | None, either: Either, exact: bool = False) -> list[State]:
    groups: dict[tuple[object, ...], list[State]] = {}
    for state in states:
        group = groups.setdefault(state.progress(), [])
        for index, other in enumerate(group):
            if exact and _bound_together(other.facts, state.facts):
                continue
            joined = _join(other, state, names, either)
            if joined is not None:
                group[index] = joined
                break
        else:
            group.append(state)
    return [state for group in groups.values() for state in group]


def _join(left: State, right: State, names: Set[str] | None, either: Either) -> State | None:
    frames = _join_tables(left.frames, right.frames, names, either)
    heap = _join_tables(left.heap, right.heap, names, either) if frames is not None else None
    if frames is None or heap is None:
        return None
    joined = left.copy()
    joined.frames = frames
    joined.heap = heap
    if left.facts != right.facts:
        joined.facts = {symbol: fact for symbol, fact in left.facts.items() if right.facts.get(symbol) == fact}
    joined.ran = _either_ran(left.ran, right.ran)
    joined.trail = _common_trail(left.trail, right.trail)
    if left.work != right.work:
        joined.work = _common_work(left.work, right.work)
    return joined


def _bound_together(left: Facts, right: Facts) -> bool:
    """Whether conditions may depend on each other: one path has assumed something the other has not asked."""
    return left.keys() != right.keys()


def _common_work(left: tuple[Work, ...], right: tuple[Work, ...]) -> tuple[Work, ...]:
    """What either path has done; certain is what both have."""
    both = {done.node for done in left if done.certain} & {done.node for done in right if done.certain}
    ours = {done.node for done in left}
    joined = (*left, *(done for done in right if done.node not in ours))
    return tuple(done if done.node in both else replace(done, certain=False) for done in joined)


def _either_ran(left: tuple[Ran, ...], right: tuple[Ran, ...]) -> tuple[Ran, ...]:
    """The regions that ran on one path or the other, each with what both assumed."""
    if left == right:
        return left
    found = {ran.context: ran for ran in left}
    for ran in right:
        facts = found.get(ran.context, ran).facts
        found[ran.context] = Ran(ran.context, {k: v for k, v in facts.items() if ran.facts.get(k) == v})
    return tuple(found.values())


def _join_tables(
    left: dict[int, dict[str, Value]],
    right: dict[int, dict[str, Value]],
    names: Set[str] | None,
    either: Either,
) -> dict[int, dict[str, Value]] | None:
    if left == right:
        return left
    joined = {}
    for key in left.keys() | right.keys():
        ours, theirs = left.get(key), right.get(key)
        if ours is None or theirs is None or ours is theirs or ours == theirs:
            joined[key] = ours or theirs or {}
            continue
        table = dict(ours)
        for name, other in theirs.items():
            mine = ours.get(name)
            if mine is None:
                table[name] = other
            elif mine is not other and mine != other:
                if names is not None and _apart(name, mine, other, names):
                    return None
                table[name] = either(mine, other)
        joined[key] = table
    return joined


def apart(left: State, right: State, names: Set[str]) -> bool:
    """Whether a flag or context among the `names` that decide differs."""
    tables = [(left.frames, right.frames), (left.heap, right.heap)]
    pairs = ((ours, others[key]) for mine, others in tables for key, ours in mine.items() if key in others)
    return any(
        value is not theirs[name] and value != theirs[name] and _apart(name, value, theirs[name], names)
        for ours, theirs in pairs
        if ours is not theirs
        for name, value in ours.items()
        if name in theirs
    )


def _apart(name: str, left: Value, right: Value, names: Set[str]) -> bool:
    """Whether two values of `name` keep their paths apart: it is one of the `names` that conditions look at."""
    functions = isinstance(left, Function) and isinstance(right, Function)
    if functions or _scaled(left) != _scaled(right):
        return True
    dtypes = "GradScaler" in names
    return (name in names or name == RESULT) and _decisive(left, dtypes) and _decisive(right, dtypes)


def _scaled(value: Value) -> bool:
    return isinstance(value, Tensor) and value.scaled is not None


def _decisive(value: Value, dtypes: bool) -> bool:
    """Whether a condition or a `with` can tell `value` from another: a flag, None, or a context.

    Where there is a scaler that may have to agree with them, `dtypes` and their names count too.
    """
    if isinstance(value, Ref):
        return value.name in AUTOCASTS or value.name in NEUTRAL_CONTEXTS or (dtypes and value.name in DTYPES)
    if isinstance(value, Const):
        return isinstance(value.value, (bool, type(None))) or (dtypes and is_precision(value.value))
    return isinstance(value, (Scaler, Manager, Autocast, GradMode, Neutral, Partial)) or (
        isinstance(value, Function) and isinstance(value.node, cst.Lambda)
    )


def _common_trail(left: Trail | None, right: Trail | None) -> Trail | None:
    """`left` without the decisions made since the two parted."""
    shared, other = left, right
    while shared is not other:
        if shared is None or other is None:
            shared = None
            break
        if shared.length >= other.length:
            shared = shared.before
        else:
            other = other.before
    kept: list[Step] = []
    while left is not shared and left is not None:
        if not left.branch:
            kept.append(left.step)
        left = left.before
    for step in reversed(kept):
        shared = Trail(step, shared, shared.length + 1 if shared else 1)
    return shared


def _without_protocol(left: State, right: State) -> State:
    """`left` with everything about the protocol unknown wherever the two disagree."""
    blurred = left.copy()
    blurred.regions = left.regions
    blurred.models = {symbol: model for symbol, model in left.models.items() if right.models.get(symbol) == model}
    for pair in left.pairs.keys() | right.pairs.keys():
        ours, theirs = left.pairs.get(pair), right.pairs.get(pair)
        if ours is None or theirs is None or ours.state is not theirs.state:
            blurred.pairs[pair] = Stage(OptState.UNKNOWN)
    for optimizer in left.gradients.keys() | right.gradients.keys():
        ours_g, theirs_g = left.gradients.get(optimizer), right.gradients.get(optimizer)
        if ours_g is None or theirs_g is None or essence(ours_g) != essence(theirs_g):
            blurred.gradients[optimizer] = NO_GRADIENTS
    for scaler in left.scalers.keys() | right.scalers.keys():
        known = left.scalers.get(scaler, ScalerState())
        if known != right.scalers.get(scaler, ScalerState()):
            blurred.scalers[scaler] = replace(known, checked=True)
    return blurred
