"""The characters of a text: conversion of positions and offsets, non-code, matching brackets."""

from __future__ import annotations

import functools
import re

from amplint.regex import regex
from amplint.source.fstrings import Field, scan

NEWLINE = regex(r"\r\n|\r|\n")
_OPENING, _CLOSING = "([{", ")]}"
_BLANK = " \t\n\r\f"
_CODE = regex(r"[^\s]")
_NO_CODE = regex(
    r"(?P<comment>\#[^\r\n]*)|(?P<joined>\\(?:\r\n|\r|\n))"
    r"|(?P<prefix>\b[rRbBuUfF]{1,2})?(?P<quote>\"\"\"|'''|\"|')"
)
_REST = {
    '"': regex(r'[^\\"]*(?:\\[\s\S][^\\"]*)*"'),
    "'": regex(r"[^\\']*(?:\\[\s\S][^\\']*)*'"),
    '"' * 3: regex(r'[^\\"]*(?:(?:\\[\s\S]|"(?!""))[^\\"]*)*"""'),
    "'" * 3: regex(r"[^\\']*(?:(?:\\[\s\S]|'(?!''))[^\\']*)*'''"),
}
_NOT_A_BREAK = regex(r"[^\r\n]")


class Layout:
    """A text by rows, from 1, and columns, from 0 in UTF-8 bytes as in `ast`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(found.end() for found in NEWLINE.finditer(text))]
        self.plain = text.isascii()

    def offset(self, row: int, column: int) -> int:
        """The offset of a position of `ast`."""
        start = self.starts[row - 1]
        if self.plain or not column:
            return start + column
        line = self.text[start : self.starts[row] if row < len(self.starts) else None]
        return start + (column if line.isascii() else len(line.encode()[:column].decode(errors="replace")))

    def place(self, offset: int) -> tuple[int, int]:
        """Row and column of an offset; the column counts characters."""
        low, high = 0, len(self.starts) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.starts[middle] <= offset else (low, middle - 1)
        return low + 1, offset - self.starts[low]

    @functools.cached_property
    def blanked(self) -> str:
        """The text, of the same length, with comments and line continuations blanked and string contents as `_`."""
        parts: list[str] = []
        text, done = self.text, 0
        while (found := _NO_CODE.search(text, done)) is not None:
            parts.append(text[done : found.start()])
            if found["quote"] is None:
                parts.append(_NOT_A_BREAK.sub(" ", found.group()))
                done = found.end()
            else:
                done = self._string(found, parts)
        parts.append(text[done:])
        return "".join(parts)

    def _string(self, found: re.Match[str], parts: list[str]) -> int:
        prefix, quote = found["prefix"] or "", found["quote"]
        if "f" in prefix.lower():
            fields, end = scan(self.text, found.end(), quote, "r" in prefix.lower())
            kept = [each for each in fields if isinstance(each, Field)]
            parts.append(self._interpolated(found.start(), end, kept))
            return end
        end = self.string_end(found.end(), quote)
        parts.append(_NOT_A_BREAK.sub("_", self.text[found.start() : end]))
        return end

    def string_end(self, place: int, quote: str) -> int:
        """The offset after the string whose text begins at `place`."""
        rest = _REST[quote].match(self.text, place)
        return rest.end() if rest else len(self.text)

    def _interpolated(self, start: int, end: int, fields: list[Field]) -> str:
        """An f-string with only its expressions kept."""
        shown, done = [], start
        for field in _nested(fields):
            shown.append(_NOT_A_BREAK.sub("_", self.text[done : field.start]))
            shown.append(Layout(self.text[field.start : field.end]).blanked)
            done = field.end
        shown.append(_NOT_A_BREAK.sub("_", self.text[done:end]))
        return "".join(shown)

    def before(self, offset: int) -> int:
        """The offset of the last character of code before `offset`, -1 for none."""
        bare = self.blanked
        offset -= 1
        while offset >= 0 and bare[offset] in _BLANK:
            offset -= 1
        return offset

    def after(self, offset: int) -> int:
        """The offset of the first character of code from `offset` on, the length of the text for none."""
        found = _CODE.search(self.blanked, offset)
        return found.start() if found else len(self.blanked)

    def closing(self, offset: int) -> int:
        """The offset of the bracket that closes the one at `offset`."""
        depth = 0
        for found in _BRACKETS.finditer(self.blanked, offset):
            depth += 1 if found.group() in _OPENING else -1
            if not depth:
                return found.start()
        return len(self.blanked)

    def encloses(self, start: int, end: int) -> bool:
        """Whether the text from `start` to `end` begins with a bracket that closes at its end."""
        return self.text[start] in _OPENING and self.text[end - 1] in _CLOSING and self.closing(start) == end - 1


_BRACKETS = regex(r"[(){}\[\]]")


def _nested(fields: list[Field]) -> list[Field]:
    """The fields, including those in format specs, in the order of the text."""
    found = []
    for field in fields:
        found.append(field)
        found += _nested([each for each in field.spec or () if isinstance(each, Field)])
    return found
