"""What is shown of many things."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from amplint.records import dataclass

_T = TypeVar("_T")


@dataclass(frozen=True)
class Shown(Generic[_T]):
    """The `rows` of a table, and how many others are `left_out` of it."""

    rows: list[_T]
    left_out: int


def most(items: Sequence[_T], count: int, badness: Callable[[_T], float]) -> Shown[_T]:
    """At most `count` of `items`: those with most `badness`, in the order that they come in."""
    worst = sorted(range(len(items)), key=lambda index: -badness(items[index]))[:count]
    return Shown([items[index] for index in sorted(worst)], len(items) - len(worst))
