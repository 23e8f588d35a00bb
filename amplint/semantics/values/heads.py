"""The states seen at a loop's head, so that a round is run only if it can yield something new."""

from __future__ import annotations

from collections.abc import Set

from amplint.semantics.values.state import State, has_decisive_difference
from amplint.semantics.values.values import Tensor, Unknown, Value


class Heads:
    """The states in which rounds of one loop began."""

    def __init__(self, deciding: Set[str]) -> None:
        """`deciding` are the names of variables on which conditions depend."""
        self._deciding = deciding
        self._begun: dict[tuple[object, ...], list[State]] = {}

    def is_new(self, state: State) -> bool:
        """Whether no round began in an equivalent state; records `state` as begun.

        A round that began under more assumptions than `state`, or with more known of it, has not explored all that is
        open now.
        """
        begun = self._begun.setdefault(state.meeting_progress(next_round=True), [])
        if any(self._covers(earlier, state) for earlier in begun):
            return False
        begun.append(state.copy())
        return True

    def _covers(self, earlier: State, state: State) -> bool:
        if not earlier.facts.items() <= state.facts.items() or has_decisive_difference(earlier, state, self._deciding):
            return False
        return not earlier.knows_more(state) and not _retyped(earlier, state)


def _retyped(earlier: State, state: State) -> bool:
    """Whether a variable or attribute known as a tensor of some dtype or rank can now have another.

    Values not known to be tensors may have been converted to a dtype.
    """
    for before, now in ((earlier.frames, state.frames), (earlier.heap, state.heap)):
        for key, table in now.items():
            known = before.get(key, table)
            if known is table:
                continue
            for name, value in table.items():
                if (old := known.get(name)) is not value and _differs(old, value):
                    return True
    return False


def _differs(before: Value | None, now: Value) -> bool:
    if isinstance(before, Unknown):
        return isinstance(now, Tensor)
    if not isinstance(before, Tensor):
        return False
    return not before.includes(now)
