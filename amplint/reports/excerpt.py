"""Source lines with a marked part, cut to the available width."""

from __future__ import annotations

from amplint.findings import Span
from amplint.reports.text import columns, visible_cells

_MOST_ROWS = 6
_CUT = "..."


def marked_rows(span: Span) -> list[int | None]:
    """The rows of `span` to show; None stands for rows omitted from a long one."""
    rows: list[int | None] = list(range(span.start.row, span.end.row + 1))
    if span.end.row > span.start.row and span.end.column == 1:
        rows.pop()
    return rows if len(rows) <= _MOST_ROWS else [*rows[: _MOST_ROWS // 2], None, *rows[-_MOST_ROWS // 2 :]]


def blank(line: str) -> bool:
    """Whether `line` has no visible character; only the start of a long line is searched."""
    return not line or line.isspace()


def excerpt(line: str, row: int, span: Span, room: int) -> tuple[str, str]:
    """Line `row` in at most `room` columns, and a second line that marks the part in `span` with `^`."""
    start = span.start.column - 1 if row == span.start.row else len(line) - len(line.lstrip())
    end = span.end.column - 1 if row == span.end.row else len(line.rstrip())
    low, high = max(0, start - room), start + room
    shown = line[low:high].ljust(start + 1 - low)
    cells = visible_cells(shown)
    widths = list(map(len if shown.isascii() else columns, cells))
    start, end = start - low, max(end, start + 1) - low
    first = 0
    if low or sum(widths) > room:
        excess = sum(widths[:end]) - (room - 2 * len(_CUT))
        while excess > 0 and first < start:
            excess -= widths[first]
            first += 1
    text = _CUT if low or first else ""
    marks = " " * len(text)
    rest = sum(widths[first:]) + (len(_CUT) if high < len(line) else 0)
    for index in range(first, len(cells)):
        if len(marks) + rest > room and len(marks) + widths[index] > room - len(_CUT):
            text += _CUT
            break
        text += cells[index]
        marks += ("^" if start <= index < end else " ") * widths[index]
        rest -= widths[index]
    return text.rstrip(), marks.rstrip()
