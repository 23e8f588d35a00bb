"""Selection of the rows to show of a long table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from amplint.records import dataclass

_T = TypeVar("_T")


@dataclass(frozen=True)
class Shown(Generic[_T]):
    """The `rows` of a table, and the number `left_out`."""

    rows: list[_T]
    left_out: int


def worst_items(items: Sequence[_T], count: int, badness: Callable[[_T], float]) -> Shown[_T]:
    """At most `count` of `items`: those with the largest `badness`, in their original order."""
    worst = sorted(range(len(items)), key=lambda index: -badness(items[index]))[:count]
    return Shown([items[index] for index in sorted(worst)], len(items) - len(worst))
