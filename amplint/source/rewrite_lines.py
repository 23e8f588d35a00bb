"""Conversion of rows and columns to offsets, and deletion of items from a comma-separated list."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from amplint.findings import Position, Span
from amplint.regex import regex
from amplint.source.source import NEWLINE

INDENTATION = regex(r"[ \t]*")
LINE_TAIL = regex(r"[ \t]*(?:;[ \t]*)?(?:#.*)?")
"""The text that may follow the last statement of a line."""
ITEM_TAIL = regex(r"[ \t]*,?[ \t]*(?:#.*)?")
"""The text that may follow an item on a line of its own."""

Range = tuple[int, int]
"""A half-open range of offsets."""


class Lines:
    r"""A text split at its line breaks (`\n`, `\r\n` and `\r`, in any mixture); rows and columns are 1-based."""

    def __init__(self, text: str) -> None:
        ends = list(NEWLINE.finditer(text))
        self.text = text
        self._starts = [0, *(found.end() for found in ends)]
        self._ends = [*(found.start() for found in ends), len(text)]

    def __len__(self) -> int:
        return len(self._starts)

    def line(self, row: int) -> str:
        """The text of `row` without its line break."""
        return self.text[self._starts[row - 1] : self._ends[row - 1]]

    def start(self, row: int) -> int:
        """The offset of the first character of `row`; the end of the text for the row after the last."""
        return self._starts[row - 1] if row <= len(self) else len(self.text)

    def offset(self, position: Position) -> int:
        """The offset of `position`. Raises ValueError if the text has no such position."""
        row, column = position.row, position.column
        if not 1 <= row <= len(self) or not 1 <= column <= len(self.line(row)) + 1:
            raise ValueError(f"there is no row {row}, column {column}")
        return self._starts[row - 1] + column - 1

    def range(self, span: Span) -> Range:
        """The offsets of `span`. Raises ValueError if the text has no such position, or it ends before it starts."""
        start, end = self.offset(span.start), self.offset(span.end)
        if end < start:
            raise ValueError(f"{span} ends before it starts")
        return start, end

    def position(self, offset: int) -> Position:
        """The position of `offset`; one inside a line break counts as the end of its row."""
        low, high = 0, len(self) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._starts[middle] <= offset else (low, middle - 1)
        return Position(low + 1, min(offset, self._ends[low]) - self._starts[low] + 1)

    def rows(self, first: int, last: int) -> Span:
        """The span of whole rows, both inclusive, with the line break of the last."""
        end = Position(last + 1, 1) if last < len(self) else Position(last, len(self.line(last)) + 1)
        return Span(Position(first, 1), end)

    def indentation(self, row: int) -> str:
        """The spaces and tabs that `row` starts with."""
        found = INDENTATION.match(self.line(row))
        return found.group() if found else ""

    def blank(self, row: int) -> bool:
        """Whether `row` is white space only."""
        return not self.line(row).strip()

    def comment(self, row: int) -> bool:
        """Whether `row` is a comment only (it may also be within a string)."""
        return self.line(row).lstrip().startswith("#")

    def commented(self, row: int, above: int = 0) -> int:
        """The first of the comments directly above `row`, below the row `above`; `row` if there are none."""
        while row - 1 > above and self.comment(row - 1):
            row -= 1
        return row

    def before(self, position: Position) -> str:
        """The text of the row up to `position`."""
        return self.line(position.row)[: position.column - 1]

    def after(self, position: Position) -> str:
        """The text of the row from `position` on."""
        return self.line(position.row)[position.column - 1 :]


def deletions(lines: Lines, items: Sequence[Span], removed: Collection[int], *, bracketed: bool) -> list[Range]:
    """The ranges to delete so that `items`, separated by commas, lose those at the indices `removed`.

    An item on lines of its own is deleted with its comment, any other without. `bracketed` says that the list is in
    parentheses, so that line breaks and a trailing comma are allowed.
    """
    text = lines.text
    last_kept = max((index for index in range(len(items)) if index not in removed), default=-1)
    found: list[Range] = []
    for index in sorted(removed):
        start, end = lines.range(items[index])
        comma = re.compile(r"[ \t]*,").match(text, end)
        if bracketed and _has_own_rows(lines, items[index]):
            found.append((lines.start(items[index].start.row), lines.start(items[index].end.row + 1)))
            continue
        following = lines.offset(items[index + 1].start) if index + 1 < len(items) else None
        previous = lines.offset(items[index - 1].end) if index else None
        if index < last_kept and following is not None and not re.search(r"[#\r\n]", text[end:following]):
            found.append((start, following))
        elif index > last_kept >= 0 and previous is not None and "#" not in text[previous:start]:
            found.append((previous, end))
        else:
            found.append((start, comma.end() if comma else end))
    merged = _merged(found)
    return [_with_emptied_rows(lines, *each) for each in merged] if bracketed else merged


def _with_emptied_rows(lines: Lines, start: int, end: int) -> Range:
    """The range, extended to whole rows if it would leave them empty."""
    first, last = lines.position(start), lines.position(end)
    if first.column == 1 or lines.before(first).strip() or lines.after(last).strip():
        return start, end
    return lines.start(first.row), lines.start(last.row + 1)


def _has_own_rows(lines: Lines, item: Span) -> bool:
    return not lines.before(item.start).strip() and ITEM_TAIL.fullmatch(lines.after(item.end)) is not None


def _merged(ranges: list[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
