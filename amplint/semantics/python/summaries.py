"""Summaries of calls, so that a function called again under equal conditions is not run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Set
from dataclasses import field

from amplint.records import dataclass
from amplint.semantics.values.facts import Fact
from amplint.semantics.values.state import MODULE_FRAME, RESULT, STEPS_KEPT, State, Trail
from amplint.semantics.values.values import Autocast, Const, Neutral, Ref, Value

Tables = dict[int, dict[str, Value]]

RUNS = 3
"""How often a function is run before its summaries are used: up to here every call has results of its own."""
RUNS_WITHOUT_EFFECT = 2
"""How many runs without effect, from one place and in one state, before a call is not followed any more."""
_PLAIN = (Autocast, Const, Neutral, Ref)
"""The kinds of values that trackers do not search all variables for, as they do for counters and objects."""


@dataclass(frozen=True)
class Summary:
    """A call: its initial state, the older assumptions and the global variables that it read, and its final states.

    If these decide conditions on values of one loop iteration, the summary does not hold in others.
    """

    before: State
    read: Mapping[Fact, Const]
    read_globals: Set[str]
    ends: list[State]
    of_round: bool = False

    def holds(self, state: State) -> bool:
        """Whether a call in `state` has the same outcome."""
        if self.of_round and state.iteration != self.before.iteration:
            return False
        if any(state.facts.get(key) != fact for key, fact in self.read.items()):
            return False
        if any(state.heap.get(symbol) != table for symbol, table in self.before.heap.items()):
            return False
        before, now = self.before.frames[MODULE_FRAME], state.frames[MODULE_FRAME]
        if before is not now and (self._assigns_globals() or self._seen(before) != self._seen(now)) and before != now:
            return False
        older = self.before.facts
        return all(key in older or key not in state.facts for end in self.ends for key in end.facts)

    def _assigns_globals(self) -> bool:
        """Whether the call assigned global variables; those of its caller's frame hold its result."""
        before = self.before.frames[MODULE_FRAME]
        return any(end.frame != MODULE_FRAME and end.frames[MODULE_FRAME] is not before for end in self.ends)

    def _seen(self, table: Mapping[str, Value]) -> dict[str, Value]:
        """The global variables that the call read, and the objects that trackers can have found in others."""
        return {n: value for n, value in table.items() if n in self.read_globals or not isinstance(value, _PLAIN)}

    def applied(self, state: State) -> list[State]:
        """The final states of a call in `state`."""
        return [_continued(state, self.before, end) for end in self.ends]


@dataclass
class Summaries:
    """The summaries of a file's functions, by call key."""

    runs: Counter[Hashable] = field(default_factory=Counter)
    _without_effect: dict[Hashable, list[Mapping[Fact, Const]]] = field(default_factory=dict)
    _known: dict[Hashable, list[Summary]] = field(default_factory=dict)

    def find(self, function: Hashable, call: Hashable, state: State) -> Summary | None:
        """The summary of a call in `state`, None if the function has to be run."""
        if self.runs[function] < RUNS:
            return None
        return next((one for one in self._known.get((function, call), ()) if one.holds(state)), None)

    def is_without_effect(self, context: Hashable, state: State) -> bool:
        """Whether calls in this context repeatedly had no effect, under the assumptions of `state`."""
        known = self._without_effect.get(context, ())
        return len(known) >= RUNS_WITHOUT_EFFECT and any(read.items() <= state.facts.items() for read in known)

    def keep_without_effect(self, context: Hashable, read: Mapping[Fact, Const]) -> None:
        """Record that a call had no effect and an uninformative result, under the assumptions `read`."""
        self._without_effect.setdefault(context, []).append(read)

    def keep(self, function: Hashable, call: Hashable, summary: Summary) -> None:
        """Record the outcome of running `function`."""
        self.runs[function] += 1
        self._known.setdefault((function, call), []).append(summary)


def _continued(state: State, before: State, end: State) -> State:
    """`state` with the changes between `before` and `end`."""
    twin = end.copy()
    twin.facts = {**state.facts, **{key: fact for key, fact in end.facts.items() if key not in before.facts}}
    twin.frames = {**state.frames, **_changed(before.frames, end.frames)}
    twin.frames[end.frame] = state.frames.get(end.frame, {})
    twin.frame = state.frame
    twin.bind(twin.frame, RESULT, end.frames[end.frame][RESULT])
    twin.heap = {**state.heap, **_changed(before.heap, end.heap)}
    twin.iteration = state.iteration
    twin.parts = {
        kind: part.continued(state.parts[kind], before.parts[kind], before.iteration, state.iteration)
        for kind, part in end.parts.items()
    }
    steps: list[Trail] = []
    trail = end.trail
    while trail is not None and trail is not before.trail and len(steps) < STEPS_KEPT:
        steps.append(trail)
        trail = trail.before
    twin.trail = state.trail
    for one in reversed(steps):
        twin.note(*one.step, side=one.side, tested=one.tested)
    return twin


def _changed(before: Tables, after: Tables) -> Tables:
    return {key: table for key, table in after.items() if before.get(key) is not table}
