"""What the head of a loop has seen, so that a round is run only where it can come to something new."""

from __future__ import annotations

from collections.abc import Set

from amplint.semantics.state import State, apart


class Heads:
    """The states that rounds of one loop have begun in."""

    def __init__(self, deciding: Set[str]) -> None:
        """Conditions depend on variables among the `deciding` names."""
        self._deciding = deciding
        self._begun: dict[tuple[object, ...], list[State]] = {}

    def is_new(self, state: State) -> bool:
        """Whether no round has begun where `state` stands; it counts as begun from now on.

        A round that began under assumptions `state` does not make did not go every way that is open now.
        """
        begun = self._begun.setdefault(state.progress(), [])
        if any(self._covers(earlier, state) for earlier in begun):
            return False
        begun.append(state.copy())
        return True

    def _covers(self, earlier: State, state: State) -> bool:
        return earlier.facts.items() <= state.facts.items() and not apart(earlier, state, self._deciding)
