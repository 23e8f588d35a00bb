"""Texts of open documents: the client's positions converted to offsets, and incremental changes."""

from __future__ import annotations

import difflib

from lsprotocol import types

from amplint.findings import Position
from amplint.source.rewrite_lines import Lines

_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
_NAMES = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


class Text:
    r"""A text as the client holds it, with columns in units of `encoding`: utf-8, utf-16 or utf-32.

    Lines end as in the protocol, with `\n`, `\r\n` or `\r`, which are also Python's.
    """

    def __init__(self, content: str, encoding: str = "utf-16") -> None:
        self.content = content
        self.encoding = encoding
        self._lines = Lines(content)

    def offset(self, place: types.Position) -> int:
        """The offset of a client's position, the nearest one if the text has no such position."""
        if place.line >= len(self._lines):
            return len(self.content)
        line = self._lines.line(place.line + 1)
        start = self._lines.start(place.line + 1)
        if line.isascii():
            return start + min(place.character, len(line))
        before = _encoded(line, self.encoding)[: place.character * _BYTES[self.encoding]]
        return start + len(before.decode(_NAMES[self.encoding], "ignore"))

    def position(self, place: Position) -> types.Position:
        """A finding's position in the client's units; the nearest one if the text has no such position."""
        if place.row > len(self._lines):
            return self.end
        line = self._lines.line(place.row)
        before = line[: place.column - 1]
        if not before.isascii():
            return types.Position(place.row - 1, len(_encoded(before, self.encoding)) // _BYTES[self.encoding])
        return types.Position(place.row - 1, len(before))

    @property
    def end(self) -> types.Position:
        """The position after the last character."""
        last = len(self._lines)
        return self.position(Position(last, len(self._lines.line(last)) + 1))

    def changed(self, change: types.TextDocumentContentChangeEvent) -> Text:
        """The text after one change."""
        if not isinstance(change, types.TextDocumentContentChangePartial):
            return Text(change.text, self.encoding)
        start, end = self.offset(change.range.start), self.offset(change.range.end)
        start, end = min(start, end), max(start, end)
        return Text(self.content[:start] + change.text + self.content[end:], self.encoding)

    def edits(self, new: str) -> list[types.TextEdit]:
        """The edits that change this text to `new`, by whole lines."""
        old, wanted = _rows(self._lines), _rows(Lines(new))
        matcher = difflib.SequenceMatcher(None, old, wanted, autojunk=False)
        return [
            types.TextEdit(types.Range(self._row(first), self._row(last)), "".join(wanted[start:end]))
            for kind, first, last, start, end in matcher.get_opcodes()
            if kind != "equal"
        ]

    def _row(self, index: int) -> types.Position:
        return types.Position(index, 0) if index < len(self._lines) else self.end


def _rows(lines: Lines) -> list[str]:
    """The lines with their line breaks."""
    return [lines.text[lines.start(row) : lines.start(row + 1)] for row in range(1, len(lines) + 1)]


def _encoded(line: str, encoding: str) -> bytes:
    return line.encode(_NAMES[encoding], "surrogatepass")
