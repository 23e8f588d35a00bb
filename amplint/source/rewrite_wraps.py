"""Edits that wrap statements in a new block."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.findings import Edit, Position, Span
from amplint.source import syntax as cst
from amplint.source.rewrite_base import RewriterBase


class WrapEdits(RewriterBase):
    """Edits that wrap statements in a new block."""

    def wrap_statements(self, statements: Sequence[cst.CSTNode], header: str) -> list[Edit] | None:
        """Wrap adjacent whole statements of one block in a block below `header`, a line without its colon.

        Every edit is an insertion, and so compatible with edits within the statements. None if a statement shares a row
        with another, or if indentation differs between rows.
        """
        rows = [self.rows(statement) for statement in statements]
        if not rows or any(row is None for row in rows):
            return None
        first, last = rows[0], rows[-1]
        assert first is not None
        assert last is not None
        untouched = {row for statement in statements for row in self.string_rows(statement)}
        indentation = self._lines.indentation(first[0])
        level = self._step(statements[0])
        found: list[Edit] = []
        for row in range(first[0], last[1] + 1):
            place = Span(Position(row, 1), Position(row, 1))
            if row == first[0]:
                found.append(Edit(place, f"{indentation}{self._adapted(header)}:{self.source.newline}{level}"))
            elif row not in untouched and not self._lines.blank(row):
                found.append(Edit(place, level))
        return found

    def _step(self, statement: cst.CSTNode) -> str:
        """What the block of `statement` is indented by beyond its header; the file's own step at the top level."""
        chunk = self.source.chunk_of(statement)
        blocks = (one for one in self.source.ancestors(statement) if isinstance(one, cst.IndentedBlock))
        header = self.source.parent(block) if (block := next(blocks, None)) is not None else None
        if header is None:
            return chunk.default_indent
        inner, outer = (self._lines.indentation(self.source.span(one).start.row) for one in (statement, header))
        return inner.removeprefix(outer) if inner.startswith(outer) and inner != outer else chunk.default_indent
