"""A stop criterion for repeated runs of code that yield no new events.

A function called in many states, or a loop reached by many paths, nearly always emits all of its distinct events in its
first runs. Later runs are not worth their cost: most of the interpretation's time went into them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Set

from amplint.records import dataclass
from amplint.source import syntax as cst

_TELLING = frozenset({bool, str, type(None)})
_SHARE = 4
"""By what a second interpretation is less patient. Short functions are run each time: their results differ."""


@dataclass(frozen=True)
class Patience:
    """After how many consecutive runs without a new event, and how many statements in all, code is not run again."""

    runs: int
    steps: int


class Novelty:
    """The distinct events so far, and since when each piece of code has added none.

    With `known` events, those of an interpretation that left a choice open, code is given up sooner: the interpretation
    of one alternative looks for what holds for that one alone.
    """

    def __init__(self, known: Set[Hashable]) -> None:
        self.event_keys = set(known)
        self._repeats = bool(known)
        self._silent: Counter[Hashable] = Counter()
        self._steps: Counter[Hashable] = Counter()

    @property
    def event_count(self) -> int:
        """The number of distinct events."""
        return len(self.event_keys)

    def record(self, kind: type, node: cst.CSTNode, details: Mapping[str, object]) -> None:
        """An event at `node`; it is new if no equal kind, flags and words were emitted there."""
        flags = ((name, detail) for name, detail in details.items() if type(detail) in _TELLING)
        self.event_keys.add((kind, node, *flags))

    def ran(self, code: Hashable, before: int, steps: int) -> None:
        """`code` was run at the cost of so many steps; `before` is the number of distinct events before it."""
        self._silent[code] = 0 if self.event_count > before else self._silent[code] + 1
        self._steps[code] += steps

    def is_over(self, code: Hashable, patience: Patience) -> bool:
        """Whether another run of `code` is not worth its cost."""
        if self._repeats:
            patience = Patience(runs=1, steps=patience.steps // _SHARE)
        return self._silent[code] >= patience.runs and self._steps[code] >= patience.steps
