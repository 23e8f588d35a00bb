"""What the head of a loop has seen, so that a round is run only where it can come to something new."""

from __future__ import annotations

from amplint.semantics.facts import Facts
from amplint.semantics.state import State


class Heads:
    """The states that rounds of one loop have begun in."""

    def __init__(self) -> None:
        self._facts: dict[tuple[object, ...], list[Facts]] = {}

    def is_new(self, state: State) -> bool:
        """Whether no round has begun where `state` stands; it counts as begun from now on.

        A round that began under assumptions `state` does not make did not go every way that is open now.
        """
        begun = self._facts.setdefault(state.progress(), [])
        if any(facts.items() <= state.facts.items() for facts in begun):
            return False
        begun.append(dict(state.facts))
        return True
