"""Refusals of a conversion, for one reason or several."""

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
    """The conversion is refused for the reason `why`; `place` is a node or a row that shows it.

    `others` are further reasons.
    """

    def __init__(self, place: cst.CSTNode | int, why: str) -> None:
        super().__init__(why)
        self.place = place
        self.why = why
        self.others: tuple[Refusal, ...] = ()

    def remarks(self, source: Source) -> tuple[Remark, ...]:
        """The remarks on all reasons, in the order of the text; `source` is the file."""
        every = dict.fromkeys(one.remark(source) for one in (self, *self.others))
        return tuple(sorted(every, key=lambda remark: remark.row))

    def remark(self, source: Source) -> Remark:
        """The remark on this reason; `source` is the file."""
        if isinstance(self.place, int):
            return Remark(self.place, self.why)
        return Remark(source.span(self.place).start.row if source.owns(self.place) else 1, self.why)


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
