"""Giving up a conversion, for one reason or for several."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

from amplint.codemods.conversion import Remark
from amplint.source import syntax as cst
from amplint.source.source import Source

Found = TypeVar("Found")
SHARED = "the statement shares its line with others"


class Refusal(Exception):
    """The text is left as it is, for the reason `why`; `place` is where that shows, a node or a row.

    `others` are further reasons.
    """

    def __init__(self, place: cst.CSTNode | int, why: str) -> None:
        super().__init__(why)
        self.place = place
        self.why = why
        self.others: tuple[Refusal, ...] = ()

    def remarks(self, source: Source) -> tuple[Remark, ...]:
        """What to tell the user of all reasons, in the order of the text; `source` is the file."""
        every = dict.fromkeys(one.remark(source) for one in (self, *self.others))
        return tuple(sorted(every, key=lambda remark: remark.row))

    def remark(self, source: Source) -> Remark:
        """What to tell the user; `source` is the file."""
        if isinstance(self.place, int):
            return Remark(self.place, self.why)
        return Remark(source.span(self.place).start.row if source.owns(self.place) else 1, self.why)


def required(found: Found | None, place: cst.CSTNode | int, why: str = SHARED) -> Found:
    """`found`, an edit or several for `place`, if there is any. Raises Refusal."""
    if found is None:
        raise Refusal(place, why)
    return found


class Reasons:
    """Gathers the reasons of parts of a conversion that do not need each other."""

    def __init__(self) -> None:
        self._found: list[Refusal] = []

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Keep a refusal in here for later."""
        try:
            yield
        except Refusal as refusal:
            self._found.append(refusal)

    def settle(self) -> None:
        """Raise Refusal for all that have been gathered, if any."""
        if self._found:
            first, *others = self._found
            first.others = tuple(others)
            raise first
