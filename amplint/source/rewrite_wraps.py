"""Edits that put statements into a block of their own."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.findings import Edit, Position, Span
from amplint.source import syntax as cst
from amplint.source.rewrite_base import RewriterBase


class WrapEdits(RewriterBase):
    """Edits that put statements into a block of their own."""

    def wrap_statements(self, statements: Sequence[cst.CSTNode], header: str) -> list[Edit] | None:
        """Put whole statements of one block, which follow each other, below `header`, a line without its colon.

        Every edit is an insertion, so that other edits inside the statements go together with these. None where a
        statement shares a row with another, and where their indentation differs from one row to the next.
        """
        rows = [self._rows(statement) for statement in statements]
        if not rows or any(row is None for row in rows):
            return None
        first, last = rows[0], rows[-1]
        assert first is not None
        assert last is not None
        untouched = {row for statement in statements for row in self._string_rows(statement)}
        indentation = self._lines.indentation(first[0])
        level = self.source.chunk_of(statements[0]).default_indent
        found: list[Edit] = []
        for row in range(first[0], last[1] + 1):
            place = Span(Position(row, 1), Position(row, 1))
            if row == first[0]:
                found.append(Edit(place, f"{indentation}{self._adapted(header)}:{self.source.newline}{level}"))
            elif row not in untouched and not self._lines.blank(row):
                found.append(Edit(place, level))
        return found
