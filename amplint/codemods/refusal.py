"""Giving up a conversion."""

from __future__ import annotations

from amplint.codemods.conversion import Remark
from amplint.source import syntax as cst
from amplint.source.source import Source


class Refusal(Exception):
    """The text is left as it is, for the reason `why`; `place` is where that shows, a node or a row."""

    def __init__(self, place: cst.CSTNode | int, why: str) -> None:
        super().__init__(why)
        self.place = place
        self.why = why

    def remark(self, source: Source) -> Remark:
        """What to tell the user; `source` is the file."""
        if isinstance(self.place, int):
            return Remark(self.place, self.why)
        return Remark(source.span(self.place).start.row if source.owns(self.place) else 1, self.why)
