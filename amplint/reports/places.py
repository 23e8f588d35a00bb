"""Places in files and notebook cells as text."""

from __future__ import annotations

from amplint.findings import Span
from amplint.reports.context import Sources
from amplint.reports.text import visible


def location_text(filename: str, span: Span) -> str:
    """`train.py:3:5`, and `train.ipynb:cell 2:3:5` in a notebook."""
    return f"{file_label(filename, span.cell)}:{span.start.row}:{span.start.column}"


def file_label(filename: str, cell: int | None) -> str:
    """The file name, with the cell in a notebook."""
    return visible(filename) if cell is None else f"{visible(filename)}:cell {cell}"


def file_rows(filename: str, span: Span, sources: Sources) -> tuple[int, int]:
    """The first and last line of the file that `span` covers; in a notebook, lines of its JSON."""
    rows = span.start.row, span.end.row
    if span.cell is None:
        return rows
    first, last = (sources.raw_row(filename, row, span.cell) for row in rows)
    return first, max(first, last)


def line(span: Span) -> str:
    """`line 3`, and `cell 2, line 3` in a notebook."""
    return f"line {span.start.row}" if span.cell is None else f"cell {span.cell}, line {span.start.row}"
