"""A Jupyter notebook as one Python text, cell after cell."""

from __future__ import annotations

import bisect

from amplint.findings import Position, Span
from amplint.notebooks.document import Cell, Document
from amplint.notebooks.hidden import Hidden, rows_of, with_ends
from amplint.notebooks.magics import masked
from amplint.notebooks.page import Page, Problem
from amplint.notebooks.validity import parses, syntax_problem
from amplint.records import dataclass
from amplint.regex import regex
from amplint.source.encoding import SourceError
from amplint.source.source import NEWLINE

_OPENING = regex(r"(?:[ \t]*(?:#[^\r\n]*)?[\r\n])*(%%[^\r\n]*)")


@dataclass(frozen=True)
class _Section:
    """A cell in the text: the row of its header, its number of rows, and the numbers of its hidden rows.

    `head` is the header, an `if` for a cell that is indented as a whole, which IPython allows.
    """

    cell: Cell
    above: int
    rows: int
    head: str
    hidden: tuple[int, int]


class Notebook(Page):
    """The code cells in order; cells that are not Python are hidden. Raises SourceError for a malformed notebook.

    A line before and after each cell separates them, and one before all keeps a cell from declaring the encoding.
    """

    def __init__(self, raw: bytes) -> None:
        self._document = Document(raw)
        cells = self._document.cells if self._document.is_python else []
        self._hidden = Hidden(cell.source for cell in cells)
        self._sections: list[_Section] = []
        problems: list[Problem] = []
        self._top = self._hidden.hide("", "")
        parts = [self._top]
        row = 2
        for cell in cells:
            first = len(self._hidden)
            head, body, failure = self._shown(cell)
            if failure is not None:
                place = failure.position
                problems.append(Problem(Position(row + place.row, place.column), failure.message))
            own = (first, len(self._hidden))
            line = self._hidden.hide("", head)
            rows = len(NEWLINE.split(body))
            self._sections.append(_Section(cell, row, rows, line, own))
            parts += (line, body)
            row += 1 + rows
        self._end = self._hidden.hide("", "")
        self._text = "\n".join([*parts, self._end, ""])
        self._starts = [section.above for section in self._sections]
        self._lines = NEWLINE.split(self._text)
        self.problems = tuple(problems)
        self.words = self._hidden.words
        super().__init__(self._text.encode())

    def _shown(self, cell: Cell) -> tuple[str, str, SourceError | None]:
        """The header and text of a cell, and why it is hidden although it should be Python."""
        source, failure = cell.source, None
        if cell.python:
            if parses(source):
                return "", source, None
            before = len(self._hidden)
            shown = masked(source, self._hidden.hide)
            head, failure = _checked(shown)
            if failure is None:
                return head, shown, None
            self._hidden.forget(before)
        lines = NEWLINE.split(source)
        return "", with_ends([self._hidden.hide(line, "") for line in lines], source), failure

    @property
    def text(self) -> str:
        return self._text

    @property
    def refusal(self) -> str:
        return "the result would change a line of IPython, or join cells"

    def restored(self, text: str) -> bytes | None:
        sources = None if self.loses(text) else self._sources(text)
        return None if sources is None else self._document.with_sources(sources)

    def _sources(self, text: str) -> dict[int, str] | None:
        """The sources that differ in `text`, by cell number."""
        bounds = [*(section.head for section in self._sections), self._end]
        before, _, rest = text.partition(f"{bounds[0]}\n")
        if before != f"{self._top}\n":
            return None
        changed: dict[int, str] = {}
        for section, following in zip(self._sections, bounds[1:], strict=True):
            body, found, rest = f"\n{rest}".partition(f"\n{following}\n")
            source = self._hidden.restored_rows(body[1:], *section.hidden) if found else None
            if source is None:
                return None
            if source == section.cell.source:
                continue
            head, failure = _checked(body[1:])
            indented = section.head.startswith("if")
            if failure is not None or bool(head) != indented or _opening(source) != _opening(section.cell.source):
                return None
            changed[section.cell.number] = source
        return None if rest else changed

    def place(self, span: Span) -> Span | None:
        at = bisect.bisect_left(self._starts, span.start.row) - 1
        if at < 0:
            return None
        section = self._sections[at]
        if span.end > Position(section.above + section.rows + 1, 1):
            return None
        start, end = (Position(place.row - section.above, place.column) for place in (span.start, span.end))
        return Span(start, end, section.cell.number)

    def may_edit(self, span: Span) -> bool:
        return not any(self._hidden.holds(self._lines[row - 1]) for row in rows_of(span))


def _opening(source: str) -> str:
    """The line with a cell's magic."""
    found = _OPENING.match(source)
    return found[1] if found else ""


def _checked(shown: str) -> tuple[str, SourceError | None]:
    """The header that makes a cell with its replacements valid Python, and the error if none does."""
    if parses(shown):
        return "", None
    if not shown[: len(shown) - len(shown.lstrip())].endswith((" ", "\t")):
        return "", syntax_problem(shown)
    failure = syntax_problem(f"if 1:\n{shown}")
    if failure is None:
        return "if 1:", None
    return "", SourceError(failure.message, Position(max(1, failure.position.row - 1), failure.position.column))
