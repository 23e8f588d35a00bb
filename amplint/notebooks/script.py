"""A Python file with IPython lines, as editors' interactive windows run it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from amplint.findings import Span
from amplint.notebooks.hidden import Hidden, rows_of
from amplint.notebooks.magics import masked
from amplint.notebooks.page import Page
from amplint.notebooks.validity import parses, syntax_problem
from amplint.regex import regex
from amplint.source.encoding import SourceError, decode, encode, rewritten
from amplint.source.source import NEWLINE

_CELL = regex(r"^(?:# ?%%|# In ?\[|# <codecell>)", re.MULTILINE)


class Script(Page):
    """The file with its IPython lines replaced."""

    def __init__(self, raw: bytes) -> None:
        self._file = raw
        before, encoding = decode(raw)
        self._hidden = Hidden([before])
        self._text = "".join(masked(cell, self._hidden.hide, script=True) for cell in _cells(before))
        self._lines = NEWLINE.split(self._text)
        self.words = self._hidden.words
        super().__init__(encode(self._text, encoding))

    @classmethod
    def of(cls, raw: bytes) -> Script | None:
        """The script, None if the file is plain Python, or not Python even with replacements."""
        try:
            if parses(decode(raw)[0]):
                return None
            script = cls(raw)
        except SourceError:
            return None
        return script if len(script._hidden) and syntax_problem(script._text) is None else None

    @property
    def text(self) -> str:
        return self._text

    @property
    def refusal(self) -> str:
        return "the result would change a line of IPython"

    def restored(self, text: str) -> bytes | None:
        found = self._hidden.restored_rows(text, 0, len(self._hidden))
        return None if found is None or self.loses(text) else rewritten(self._file, found)

    def may_edit(self, span: Span) -> bool:
        return not any(self._hidden.holds(self._lines[row - 1]) for row in rows_of(span))


def _cells(text: str) -> Iterator[str]:
    """The parts of a text between the comments that divide it into cells."""
    starts = [0, *(found.start() for found in _CELL.finditer(text)), len(text)]
    yield from (text[start:end] for start, end in itertools.pairwise(starts))
