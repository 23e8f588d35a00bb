"""Dataclasses that write their methods late are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

from amplint.records import dataclass

Make = Callable[..., Any]


def classes(make: Make) -> list[tuple[Any, Any, Any]]:
    """Two objects that are alike, and one that is not, of classes of every kind."""

    @make(frozen=True, slots=True)
    class Slotted:
        """Frozen."""

        one: int
        other: list[int] = field(default_factory=list, compare=False)
        third: str = field(default="c", repr=False, kw_only=True)

    @make(frozen=True, slots=True)
    class Below(Slotted):
        """Derived."""

        more: int = field(default=4, init=False)

    @make
    class Plain:
        """Not frozen."""

        one: int
        two: int = 2

        def __post_init__(self) -> None:
            self.two += 1

    @make(frozen=True, kw_only=True, eq=False)
    class Identical:
        """Told apart."""

        one: int

    @make(frozen=True, order=True)
    class Ordered:
        """In order."""

        one: int
        two: str = "b"

        def __repr__(self) -> str:
            return "own"

    @make(frozen=True)
    class OwnEquality:
        """Compared by its own rules."""

        one: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, OwnEquality) and self.one % 2 == other.one % 2

    return [
        (Slotted(1, [2]), Slotted(1, [3]), Slotted(1, third="d")),
        (Below(1), Below(1), Below(2)),
        (Plain(1), Plain(1, 2), Plain(2)),
        (Identical(one=1), Identical(one=1), Identical(one=2)),
        (Ordered(1), Ordered(1, "b"), Ordered(1, "c")),
        (OwnEquality(1), OwnEquality(1), OwnEquality(2)),
    ]


def told(make: Make, one: Any, same: Any, other: Any) -> dict[str, Any]:
    """What can be said of three objects."""
    kind = type(one)
    return {
        "name": kind.__name__,
        "repr": [repr(each).rpartition(".")[2] for each in (one, same, other)],
        "equal": [one == same, one == other, one == 1, one != same],
        "hashable": _answer(lambda: hash(one) == hash(same)),
        "order": [_answer(lambda: one < other), _answer(lambda: one >= other)],
        "set": _answer(lambda: setattr(one, "one", 5)),
        "copied": copy.copy(other).one,
        "fields": [each.name for each in dataclasses.fields(kind)],
        "replaced": replace(other, one=7).one,
        "missing": _answer(lambda: kind()),
        "slots": hasattr(one, "__dict__"),
        "dict": dataclasses.asdict(one),
    }


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (TypeError, FrozenInstanceError) as failure:
        return type(failure).__name__


@pytest.mark.parametrize("place", range(6))
def test_they_behave_alike(place: int) -> None:
    ours, theirs = classes(dataclass)[place], classes(dataclasses.dataclass)[place]
    assert told(dataclass, *ours) == told(dataclasses.dataclass, *theirs)


@dataclass(frozen=True, slots=True)
class Sent:
    """What goes to another process."""

    one: int
    other: tuple[str, ...] = ()


def test_they_can_be_sent() -> None:
    assert pickle.loads(pickle.dumps(Sent(1, ("a",)))) == Sent(1, ("a",))
