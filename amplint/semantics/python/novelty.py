"""Code that is not run again, since running it has told nothing new for some time.

A function that is called in many states, or a loop that many paths come to, nearly always tells all it has to tell in
its first runs. What it would tell in the thirtieth is not worth what it costs: most of the time that interpretation
takes went into such runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from amplint.records import dataclass
from amplint.source import syntax as cst

_TELLING = frozenset({bool, str, type(None)})


@dataclass(frozen=True)
class Patience:
    """How many runs in a row may tell nothing new, and how many statements all runs may take before that counts."""

    runs: int
    steps: int


class Novelty:
    """What has been told so far, and since when each piece of code has added nothing to it."""

    def __init__(self) -> None:
        self._told: set[Hashable] = set()
        self._silent: Counter[Hashable] = Counter()
        self._steps: Counter[Hashable] = Counter()

    @property
    def told(self) -> int:
        """How many different things have been told."""
        return len(self._told)

    def tell(self, kind: type, node: cst.CSTNode, details: Mapping[str, object]) -> None:
        """An event of this kind happens at `node`; it is new if none was told there with these flags and words."""
        flags = ((name, detail) for name, detail in details.items() if type(detail) in _TELLING)
        self._told.add((kind, node, *flags))

    def ran(self, code: Hashable, told: int, steps: int) -> None:
        """`code` has been run, which took so many steps; so much had been `told` before."""
        self._silent[code] = 0 if self.told > told else self._silent[code] + 1
        self._steps[code] += steps

    def is_over(self, code: Hashable, patience: Patience) -> bool:
        """Whether another run of `code` is not worth its cost."""
        return self._silent[code] >= patience.runs and self._steps[code] >= patience.steps
