"""A growing series of values in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Thinned(Generic[_T]):
    """Values by step, at most `most`: beyond that, adjacent pairs are replaced by their `join`.

    So every value but the last covers the same number of steps. `steps` holds the first step of each.
    """

    def __init__(self, most: int, join: Callable[[_T, _T], _T]) -> None:
        self.steps: list[int] = []
        self.values: list[_T] = []
        self._most = most
        self._join = join
        self._each = 1
        self._in_last = 0

    def add(self, step: int, value: _T) -> None:
        """Add the value of `step`, joined to the last value if that is of the same step or not yet complete."""
        if self.steps and (self.steps[-1] == step or 0 < self._in_last < self._each):
            self._in_last += self.steps[-1] != step
            self.values[-1] = self._join(self.values[-1], value)
            return
        self.steps.append(step)
        self.values.append(value)
        self._in_last = 1
        if len(self.steps) > self._most:
            self.thin()

    def thin(self) -> None:
        """Join adjacent pairs."""
        odd = len(self.values) % 2
        pairs = zip(self.values[::2], self.values[1::2], strict=False)
        self.values = [self._join(one, other) for one, other in pairs] + self.values[len(self.values) - odd :] * odd
        self.steps = self.steps[::2]
        self._in_last = self._in_last if odd else self._each + self._in_last
        self._each *= 2
