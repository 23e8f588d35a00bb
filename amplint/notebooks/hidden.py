"""Rows hidden from the analysis, each identified by a marker."""

from __future__ import annotations

import re
from collections.abc import Iterable

from amplint.findings import Span
from amplint.regex import regex
from amplint.source.source import NEWLINE

_WORD = regex(r"[A-Za-z_]\w*")


class Hidden:
    """The rows hidden from `texts`, which contain none of the markers."""

    def __init__(self, texts: Iterable[str]) -> None:
        word = "ipython"
        kept = [text for text in texts if "# <ipython" in text]
        while any(f"# <{word} " in text for text in kept):
            word += "_"
        self._word = word
        self._rows: list[tuple[str, str]] = []
        self._sign = re.compile(rf"# <{word} (\d+)>$")

    def __len__(self) -> int:
        return len(self._rows)

    def hide(self, row: str, stand_in: str) -> str:
        """Record `row`, and return `stand_in` with a marker, or a comment if it is empty."""
        shown = f"{stand_in}{'  ' if stand_in else ''}# <{self._word} {len(self._rows)}>"
        self._rows.append((row, shown))
        return shown

    def forget(self, count: int) -> None:
        """Discard the hidden rows after the first `count`."""
        del self._rows[count:]

    @property
    def words(self) -> frozenset[str]:
        """The words in the hidden rows."""
        return frozenset(word for row, _ in self._rows for word in _WORD.findall(row))

    def holds(self, line: str) -> bool:
        """Whether `line` replaces a hidden row."""
        return self._sign.search(line) is not None

    def restored_rows(self, text: str, first: int, last: int) -> str | None:
        """`text` with the hidden rows from number `first` to before `last` restored.

        None unless each replacement occurs once, in order, and unchanged but for its indentation; those at the margin
        stay there.
        """
        lines, expected = NEWLINE.split(text), first
        for index, line in enumerate(lines):
            found = self._sign.search(line)
            if found is None:
                continue
            if int(found[1]) != expected or expected >= last:
                return None
            row, shown = self._rows[expected]
            expected += 1
            if line != shown:
                code = line.lstrip(" \t")
                if code != shown.lstrip(" \t") or not shown.startswith((" ", "\t")):
                    return None
                row = line[: len(line) - len(code)] + row.lstrip(" \t")
            lines[index] = row
        if expected != last:
            return None
        return with_ends(lines, text)


def with_ends(lines: list[str], text: str) -> str:
    """`lines` with the line breaks of `text`, which has as many."""
    return "".join(part for pair in zip(lines, [*NEWLINE.findall(text), ""], strict=True) for part in pair)


def rows_of(span: Span) -> range:
    """The rows that `span` covers or, if it is empty, touches other than at their start."""
    if span.start == span.end and span.start.column == 1:
        return range(0)
    ends_before = span.end.column == 1 and span.end.row > span.start.row
    return range(span.start.row, span.end.row + (0 if ends_before else 1))
