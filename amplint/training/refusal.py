"""Reasons for which a training file cannot be followed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

from amplint.source import syntax as cst
from amplint.source.source import Source

Found = TypeVar("Found")
SHARED = "the statement shares its line with others"


class Refusal(Exception):
    """The conversion is refused for the reason `why`; `place` is a node or a row that shows it.

    `others` are further reasons.
    """

    def __init__(self, place: cst.CSTNode | int, why: str) -> None:
        super().__init__(why)
        self.place = place
        self.why = why
        self.others: tuple[Refusal, ...] = ()

    def row(self, source: Source) -> int:
        """The row of `source`, the file, that shows the reason."""
        if isinstance(self.place, int):
            return self.place
        return source.span(self.place).start.row if source.owns(self.place) else 1

    def reasons(self, source: Source) -> list[tuple[int, str]]:
        """All reasons with their rows of `source`, the file, in the order of the text."""
        every = dict.fromkeys((one.row(source), one.why) for one in (self, *self.others))
        return sorted(every, key=lambda reason: reason[0])


def required(found: Found | None, place: cst.CSTNode | int, why: str = SHARED) -> Found:
    """`found`, an edit or several for `place`. Raises Refusal if it is None."""
    if found is None:
        raise Refusal(place, why)
    return found


class Reasons:
    """Collects the reasons of independent parts of a conversion."""

    def __init__(self) -> None:
        self._found: list[Refusal] = []

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Keep a refusal raised within for later."""
        try:
            yield
        except Refusal as refusal:
            self._found.append(refusal)

    def raise_collected(self) -> None:
        """Raise one Refusal for all collected ones, if any."""
        if self._found:
            first, *others = self._found
            first.others = tuple(others)
            raise first
