"""The state at one point of one execution path, and the join of two states."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Set
from typing import Protocol, TypeAlias, TypeVar

from amplint.records import dataclass
from amplint.semantics.values.facts import NOTHING, Fact, Facts, joined_options
from amplint.semantics.values.values import (
    Autocast,
    Const,
    Entered,
    Function,
    GradMode,
    Manager,
    Neutral,
    NewThread,
    Opaque,
    Partial,
    Ref,
    Scaler,
    Tensor,
    Value,
)
from amplint.source import syntax as cst
from amplint.torchlib.names import AUTOCASTS, DTYPES, NEUTRAL_CONTEXTS, is_precision

Either: TypeAlias = Callable[[Value, Value, Facts, Facts], Value]
Step: TypeAlias = tuple[cst.CSTNode, str]
"""A node, and a message about it."""
Iteration: TypeAlias = tuple[int, ...]
"""The iterations of the loops around a point, each by the time at which it began."""
P = TypeVar("P", bound="Part")
MODULE_FRAME = 0
RESULT = "<result>"
"""The variable for a call's result while its paths are joined."""
STEPS_KEPT = 16
"""The number of the latest steps of a path that messages show."""
NEXT_ROUND = -1
"""An iteration that has not begun."""


@dataclass(frozen=True, slots=True)
class Region:
    """An entered context and the `with` statement, decorator or call that entered it."""

    context: Autocast | GradMode | Opaque | NewThread
    entered_by: cst.CSTNode


@dataclass(frozen=True, slots=True)
class Trail:
    """The steps so far, newest first; a linked list, so that paths share common prefixes.

    `side` is the outcome of a condition, None for other steps; the step is dropped if both outcomes turn out alike. It
    has no message if the path's assumptions decided the condition. `tested` are the unknown values that decided it.
    """

    step: Step
    before: Trail | None
    length: int
    side: bool | None = None
    tested: tuple[int, ...] = ()


class Part:
    """A tracker's part of the path state."""

    __slots__ = ()

    def copy(self: P) -> P:
        """A copy that may be modified."""
        raise NotImplementedError

    def changes(self) -> None:
        """Called before a modification."""

    def key(self, now: Iteration) -> Hashable:
        """The part that rules can distinguish in the iteration `now`: paths with equal keys may be joined."""
        raise NotImplementedError

    def meeting_key(self, now: Iteration) -> Hashable:
        """The part that keeps paths apart where they meet; one of two with equal ones may know less than the other."""
        return self.key(now)

    def knows_more(self: P, other: P) -> bool:
        """Whether it knows more than another part with the same key for paths that meet."""
        return False

    def symbols(self) -> Iterable[int]:
        """The objects that it refers to."""
        return ()

    def joined(self: P, other: P) -> P:
        """The join of two parts with equal keys for paths that meet."""
        return self

    def joined_with(self: P, other: P) -> P:
        """The join of two parts with different keys."""
        return self

    def continued(self: P, now: P, before: P, then: Iteration, here: Iteration) -> P:
        """The state at the end of a summarised call that begins in iteration `here` in the state `now`.

        The summarised call began in iteration `then` in the state `before`, and ended in `self`.
        """
        return self

    def is_unchanged(self: P, before: P) -> bool:
        """Whether nothing changed since `before` beyond the key."""
        return True


class State:
    """Variables, attributes, assumptions, regions and the protocol's progress on one path. Copies are shallow."""

    __slots__ = ("facts", "frame", "frames", "heap", "iteration", "owned", "parts", "regions", "trail")

    def __init__(self, parts: Iterable[type[Part]] = ()) -> None:
        """`facts` are the assumptions: symbol -> truth, ("is none", symbol) and other keys -> further facts."""
        self.frames: dict[int, dict[str, Value]] = {MODULE_FRAME: {}}
        self.frame = MODULE_FRAME
        self.heap: dict[int, dict[str, Value]] = {}
        self.facts: dict[Fact, Const] = {}
        self.regions: tuple[Region, ...] = ()
        self.trail: Trail | None = None
        self.iteration: tuple[int, ...] = ()
        self.parts: dict[type[Part], Part] = {kind: kind() for kind in parts}
        self.owned: tuple[type[Part], ...] = ()

    def __getitem__(self, kind: type[P]) -> P:
        """A tracker's part of the state, read-only since other paths may share it."""
        return self.parts[kind]  # type: ignore[return-value]

    def change(self, kind: type[P]) -> P:
        """A tracker's part of the state for modification: a copy if another path may share it."""
        part: P = self.parts[kind]  # type: ignore[assignment]
        if kind not in self.owned:
            part = self.parts[kind] = part.copy()
            self.owned = (*self.owned, kind)
        part.changes()
        return part

    def copy(self) -> State:
        """An independent continuation of this path."""
        twin = State.__new__(State)
        twin.frames = dict(self.frames)
        twin.frame = self.frame
        twin.heap = dict(self.heap)
        twin.facts = dict(self.facts)
        twin.regions = self.regions
        twin.trail = self.trail
        twin.iteration = self.iteration
        twin.parts = dict(self.parts)
        twin.owned = self.owned = ()
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

    def note(self, node: cst.CSTNode, message: str, side: bool | None = None, tested: tuple[int, ...] = ()) -> None:
        """Record a step for messages, or the outcome `side` of a condition on the symbols `tested`."""
        length = self.trail.length + 1 if self.trail else 1
        self.trail = Trail((node, message), self.trail, length, side, tested)

    def progress(self) -> tuple[object, ...]:
        """The part that rules can distinguish: equal progress leads to equal reports from here on."""
        return (self.regions, *[part.key(self.iteration) for part in self.parts.values()])

    def meeting_progress(self, next_round: bool = False) -> tuple[object, ...]:
        """The part that keeps paths apart where they meet."""
        now = (*self.iteration, NEXT_ROUND) if next_round else self.iteration
        return (self.regions, *[part.meeting_key(now) for part in self.parts.values()])

    def knows_more(self, other: State) -> bool:
        """Whether a part knows more than on another path with the same progress for paths that meet."""
        return any(part.knows_more(other.parts[kind]) for kind, part in self.parts.items())


class Values(Protocol):
    """What joins values."""

    def joined_value(self, left: Value, right: Value, ours: Facts = NOTHING, theirs: Facts = NOTHING) -> Value:
        """The join of the values of a variable on two paths with the facts `ours` and `theirs`."""

    def unset_value(self, owner: int, name: str) -> Value | None:
        """The attribute or item `name` of the object `owner` where nothing sets it, None for objects made in sight."""


def rounds_since(then: tuple[int, ...], now: tuple[int, ...]) -> tuple[int, int]:
    """The number of loop iterations around a call that are still running, and their total."""
    return shared_rounds(then, now), len(then)


def shared_rounds(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """The number of loop iterations around both calls."""
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return shared


def same_iteration(then: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Whether one of two calls is in the other's iteration."""
    shared = min(len(then), len(now))
    return then[:shared] == now[:shared]


def merge(states: list[State], limit: int, names: Set[str], values: Values, exact: bool = False) -> list[State]:
    """The states with equal ones joined, at most `limit` of them.

    Paths are joined if the protocol's state is equal and no flag or context among the decisive `names` differs;
    `values` joins values that do differ. An `exact` join also keeps paths apart whose conditions depend on each other.
    Beyond `limit`, these, flags and contexts are joined too, and finally the protocol's state.
    """
    if len(states) < 2:
        return states
    kept = _join_alike(states, names, values, exact)
    if exact and len(kept) > limit:
        kept = _join_alike(kept, names, values)
    if len(kept) > limit:
        kept = _join_alike(kept, None, values)
    while len(kept) > limit:
        last = kept.pop()
        kept[-1] = _join(_blurred(kept[-1], last), last, None, values) or kept[-1]
    return kept


def _join_alike(states: Iterable[State], names: Set[str] | None, values: Values, exact: bool = False) -> list[State]:
    groups: dict[tuple[object, ...], list[State]] = {}
    for state in states:
        group = groups.setdefault(state.meeting_progress(), [])
        for index, other in enumerate(group):
            if exact and _are_correlated(other.facts, state.facts):
                continue
            joined = _join(other, state, names, values)
            if joined is not None:
                group[index] = joined
                break
        else:
            group.append(state)
    return [state for group in groups.values() for state in group]


def _join(left: State, right: State, names: Set[str] | None, values: Values) -> State | None:
    if left.facts == right.facts:
        alone = NOTHING, NOTHING
    else:
        alone = _own_facts(left.facts, right.facts), _own_facts(right.facts, left.facts)
    frames = _join_tables(left.frames, right.frames, names, values.joined_value, alone)
    heap = _join_tables(left.heap, right.heap, names, values.joined_value, alone) if frames is not None else None
    if frames is None or heap is None:
        return None
    for one, other in ((left.heap, right.heap), (right.heap, left.heap)):
        for owner, name, value in _constants_of_one(one, other, values):
            heap = {**heap, owner: {**heap[owner], name: value}}
    joined = left.copy()
    joined.frames = frames
    joined.heap = heap
    if alone[0]:
        kept = {key: fact for key, fact in left.facts.items() if key not in alone[0]}
        joined.facts = kept | joined_options(left.facts, right.facts, alone[0])
    joined.parts = {kind: part.joined(right.parts[kind]) for kind, part in left.parts.items()}
    joined.trail = _common_trail(left.trail, right.trail)
    return joined


def _own_facts(facts: Facts, others: Facts) -> Facts:
    """Those of `facts` that the other path has not assumed."""
    alone = {key: fact for key, fact in facts.items() if (other := others.get(key)) is not fact and other != fact}
    return alone or NOTHING


def _are_correlated(left: Facts, right: Facts) -> bool:
    """Whether conditions may depend on each other: one path assumes something that the other has not tested."""
    return left.keys() != right.keys()


def _join_tables(
    left: dict[int, dict[str, Value]],
    right: dict[int, dict[str, Value]],
    names: Set[str] | None,
    either: Either,
    alone: tuple[Facts, Facts],
) -> dict[int, dict[str, Value]] | None:
    joined = left
    for key, theirs in right.items():
        ours = left.get(key)
        if ours is theirs or ours == theirs:
            continue
        if joined is left:
            joined = dict(left)
        if ours is None:
            joined[key] = theirs
            continue
        table = dict(ours)
        for name, mine, other in zip(theirs, map(ours.get, theirs), theirs.values(), strict=True):
            if mine is other:
                continue
            if mine is None:
                table[name] = other
            elif mine != other:
                if names is not None and _is_decisive_difference(name, mine, other, names):
                    return None
                table[name] = either(mine, other, *alone)
        joined[key] = table
    return joined


def _constants_of_one(
    heap: dict[int, dict[str, Value]], other: dict[int, dict[str, Value]], values: Values
) -> Iterator[tuple[int, str, Value]]:
    """Attributes that one path alone sets to a constant, joined with what they are on the other path."""
    for owner, table in heap.items():
        theirs = other.get(owner, _NONE_SET)
        if theirs is table:
            continue
        for name, value in table.items():
            if type(value) is Const and value.value is not None and name not in theirs:
                before = values.unset_value(owner, name)
                if before is not None:
                    yield owner, name, values.joined_value(before, value)


_NONE_SET: dict[str, Value] = {}


def has_decisive_difference(left: State, right: State, names: Set[str]) -> bool:
    """Whether a flag or context among the decisive `names` differs."""
    tables = [(left.frames, right.frames), (left.heap, right.heap)]
    pairs = ((ours, others[key]) for mine, others in tables for key, ours in mine.items() if key in others)
    return any(
        value is not theirs[name]
        and value != theirs[name]
        and _is_decisive_difference(name, value, theirs[name], names)
        for ours, theirs in pairs
        if ours is not theirs
        for name, value in ours.items()
        if name in theirs
    )


def _is_decisive_difference(name: str, left: Value, right: Value, names: Set[str]) -> bool:
    """Whether two values of `name` keep their paths apart: it is one of the `names` in conditions."""
    kinds = type(left), type(right)
    if kinds == _FUNCTIONS or (Tensor in kinds and _scaled(left) != _scaled(right)):
        return True
    if not (name in names or name == RESULT):
        return False
    dtypes = "GradScaler" in names
    return _decisive(left, dtypes) and _decisive(right, dtypes)


_FUNCTIONS = Function, Function


def _scaled(value: Value) -> bool:
    return isinstance(value, Tensor) and value.scaled is not None


def gives_region(value: Value) -> bool:
    """Whether `value` is a context that affects regions, or makes one of autocast when it is called."""
    made = value.callee if isinstance(value, Partial) else value
    return isinstance(value, _CONTEXTS) or (isinstance(made, Ref) and made.name in AUTOCASTS)


_CONTEXTS = (Autocast, GradMode, Neutral, Entered)


def _decisive(value: Value, dtypes: bool) -> bool:
    """Whether a condition or a `with` can distinguish `value` from another: a flag, None, or a context.

    If there is a scaler that may have to agree with them, `dtypes` and their names count too.
    """
    if isinstance(value, Ref):
        return value.name in AUTOCASTS or value.name in NEUTRAL_CONTEXTS or (dtypes and value.name in DTYPES)
    if isinstance(value, Const):
        return isinstance(value.value, (bool, type(None))) or (dtypes and is_precision(value.value))
    return isinstance(value, (Scaler, Manager, Autocast, GradMode, Neutral, Entered, Partial)) or (
        isinstance(value, Function) and isinstance(value.node, cst.Lambda)
    )


def _common_trail(left: Trail | None, right: Trail | None) -> Trail | None:
    """`left` without the decisions made since the paths diverged."""
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
        if left.side is None:
            kept.append(left.step)
        if len(kept) == STEPS_KEPT:
            shared = None
            break
        left = left.before
    for step in reversed(kept):
        shared = Trail(step, shared, shared.length + 1 if shared else 1)
    return shared


def _blurred(left: State, right: State) -> State:
    """`left` with everything unknown that differs in trackers' parts of the other path."""
    blurred = left.copy()
    blurred.parts = {kind: part.joined_with(right.parts[kind]) for kind, part in left.parts.items()}
    return blurred
