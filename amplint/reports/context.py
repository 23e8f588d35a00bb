"""The inputs of a report besides the findings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from amplint.engine.select import Rules
from amplint.findings import Finding
from amplint.records import dataclass
from amplint.regex import regex
from amplint.source.encoding import SourceError, shown_text
from amplint.source.files import read

if TYPE_CHECKING:
    from amplint.notebooks.document import Document

_NEWLINE = regex(r"\r\n|\r|\n")


class Sources:
    """The lines of linted files, read on demand. `given` holds content that is not on disk."""

    def __init__(self, given: Mapping[str, bytes] | None = None) -> None:
        self._given = given or {}
        self._texts: dict[str, str | None] = {}
        self._lines: dict[str, list[str]] = {}
        self._notebooks: dict[str, Document | None] = {}

    def line(self, filename: str, row: int, cell: int | None = None) -> str | None:
        """Line `row` of a file, or of a notebook's `cell`, without its line break; None if it cannot be read."""
        lines = self.lines(filename) if cell is None else self._cell(filename, cell)
        return lines[row - 1] if 1 <= row <= len(lines) else None

    def raw_row(self, filename: str, row: int, cell: int) -> int:
        """The line of the notebook file that holds row `row` of `cell`, 1 if it cannot be read."""
        notebook = self._notebook(filename)
        return 1 if notebook is None else notebook.raw_row(cell, row)

    def _cell(self, filename: str, cell: int) -> list[str]:
        notebook = self._notebook(filename)
        return [] if notebook is None else notebook.lines(cell)

    def _notebook(self, filename: str) -> Document | None:
        if filename not in self._notebooks:
            from amplint.notebooks.document import Document  # more modules than most runs need

            raw = self._read(filename)
            self._notebooks[filename] = None
            with contextlib.suppress(SourceError):
                self._notebooks[filename] = None if raw is None else Document(raw)
        return self._notebooks[filename]

    def lines(self, filename: str) -> list[str]:
        """All lines without line breaks; empty if the file cannot be read."""
        if filename not in self._lines:
            text = self._text(filename)
            self._lines[filename] = [] if text is None else _NEWLINE.split(text)
        return self._lines[filename]

    def text(self, filename: str) -> str:
        """The whole text; empty if the file cannot be read."""
        return self._text(filename) or ""

    def _text(self, filename: str) -> str | None:
        if filename not in self._texts:
            raw = self._read(filename)
            self._texts[filename] = None if raw is None else shown_text(raw)
        return self._texts[filename]

    def _read(self, filename: str) -> bytes | None:
        return self._given[filename] if filename in self._given else content(filename)


def content(filename: str) -> bytes | None:
    """The file's content, None if it cannot be read."""
    try:
        return read(filename)
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Context:
    """How to show findings: `width` in columns, ANSI `colour` or none, the rules for links, the linted text."""

    rules: Rules
    sources: Sources = field(default_factory=Sources)
    width: int = 80
    colour: bool = False


Report = Callable[[Sequence[Finding], Context], str]
"""Findings to text that ends in a line end, or to an empty text."""
