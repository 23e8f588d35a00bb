"""Statements wrapped in blocks, which may be nested, and lines inserted above them: all as edits at row starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.findings import Edit, Position, Span
from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.training.refusal import required
from amplint.training.script import Script


@dataclass(frozen=True)
class _Header:
    """Lines above the row `first`; the rows from there to `last` are indented, none if `last` is smaller."""

    first: int
    last: int
    code: tuple[str, ...]

    @property
    def opens(self) -> bool:
        return self.last >= self.first


class Blocks:
    """Collects the lines above and blocks around statements."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._lines = script.lines
        self._level = script.source.chunks[0].default_indent
        self._headers: list[_Header] = []
        self._untouched: set[int] = set()

    def above(self, statement: cst.CSTNode, *code: str) -> None:
        """Insert lines above `statement` and its comments; four leading spaces mean one level."""
        first = self._commented(self._rows(statement)[0])
        self._headers.append(_Header(first, first - 1, code))

    def wrap(self, statements: Sequence[cst.CSTNode], *code: str) -> None:
        """Wrap adjacent statements in the block that the first line of `code` opens, after its other lines."""
        first, last = self._commented(self._rows(statements[0])[0]), self._rows(statements[-1])[1]
        for statement in statements:
            self._untouched |= self._script.rewrite.string_rows(statement)
        self._level = self._script.source.chunk_of(statements[0]).default_indent
        self._headers.append(_Header(first, last, code))

    def define(self, code: Sequence[str]) -> None:
        """Define a function at the top level, below the imports."""
        imports = [one for one in self._script.top if _imports(one)]
        row = self._script.source.span(imports[-1]).end.row + 1 if imports else self._script.row(self._script.top[0])
        blank = 0
        while row + blank <= len(self._lines) and self._lines.blank(row + blank):
            blank += 1
        above = ("", "") if imports else ()
        self._headers.append(_Header(row, row - 1, (*above, *code, *[""] * max(0, 2 - blank))))

    def edits(self) -> Iterator[Edit]:
        """The insertions. Outer blocks come first, and lines above a statement before the blocks that begin with it."""
        rows = {row for one in self._headers for row in (one.first, *range(one.first, one.last + 1))}
        for row in sorted(rows):
            content = self._at(row)
            if content:
                yield Edit(Span(Position(row, 1), Position(row, 1)), content)

    def _at(self, row: int) -> str:
        depth = sum(one.first < row <= one.last for one in self._headers)
        content = ""
        for one in sorted((one for one in self._headers if one.first == row), key=lambda one: (one.opens, -one.last)):
            for position, line in enumerate(one.code):
                code = line.lstrip(" ")
                deeper = depth + (len(line) - len(code)) // 4 + (one.opens and position > 0)
                indentation = self._lines.indentation(row) + self._level * deeper if code else ""
                content += indentation + code + self._script.source.newline
            depth += one.opens
        moves = row not in self._untouched and not self._lines.blank(row)
        return content + self._level * depth if moves else content

    def _commented(self, row: int) -> int:
        """The first row of the comments directly above `row`, at its depth; `row` if there are none."""
        indentation = self._lines.indentation(row)
        while self._lines.comment(row - 1) and self._lines.indentation(row - 1) == indentation:
            row -= 1
        return row

    def _rows(self, statement: cst.CSTNode) -> tuple[int, int]:
        return required(self._script.rewrite.rows(statement), statement)


def _imports(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], (cst.Import, cst.ImportFrom)
    )
