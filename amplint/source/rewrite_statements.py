"""Edits of whole statements: insert, remove, move."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.findings import Edit, Position, Span
from amplint.source import syntax as cst
from amplint.source.rewrite_base import RewriterBase, Statement


class StatementEdits(RewriterBase):
    """Edits of whole statements; each is None if the statement shares a row with others."""

    def insert_before(self, node: cst.CSTNode, code: str) -> Edit | None:
        """Insert `code` on lines of its own above the statement that contains `node`, below the comments above it.

        `code` may be several lines; four leading spaces mean one level. None within a lambda, a comprehension, the
        condition of a `while` and other expressions that are not evaluated exactly once with their statement.
        """
        found = self._place(node)
        if found is None:
            return None
        row = found[0]
        return Edit(self._at(row), self._block(node, code, self._lines.indentation(row)) + self.source.newline)

    def insert_after(self, node: cst.CSTNode, code: str) -> Edit | None:
        """Insert `code` on lines of its own below the statement that contains `node`, including its body.

        None if `insert_before` returns None, and after a `return`.
        """
        found = self._place(node)
        if found is None or _leaves(self.statement_of(node)):
            return None
        first, last = found
        return self._insertion_below(last, self._block(node, code, self._lines.indentation(first)))

    def wrap_statement(self, node: cst.CSTNode, header: str) -> Edit | None:
        """Move the simple statement that contains `node` into a new block below `header`, a line without colon.

        None if `insert_before` returns None, and for a compound statement.
        """
        rows = self._place(node)
        if rows is None or not isinstance(statement := self.statement_of(node), cst.SimpleStatementLine):
            return None
        level = self.source.chunk_of(node).default_indent
        untouched = self.string_rows(statement)
        lines = [f"{self._lines.indentation(rows[0])}{header}:"]
        for row in range(rows[0], rows[1] + 1):
            line = self._lines.line(row)
            lines.append(level + line if row not in untouched and line.strip() else line)
        end = Position(rows[1], len(self._lines.line(rows[1])) + 1)
        return Edit(Span(Position(rows[0], 1), end), self.source.newline.join(lines))

    def remove_statement(self, node: cst.CSTNode) -> Edit | None:
        """Delete the lines of the statement that contains `node`, with its comment; `pass` replaces a sole one."""
        statement = self.statement_of(node)
        return self._removal(statement) if statement is not None else None

    def drop_method(self, call: cst.Call) -> Edit | None:
        """Replace `object.method(...)` by the object; delete the statement if only a name would remain."""
        if not isinstance(call.func, cst.Attribute):
            return None
        owner, statement = call.func.value, self.source.parent(call)
        if isinstance(statement, cst.Expr) and isinstance(owner, (cst.Name, cst.Attribute)):
            return self.remove_statement(call)
        return self.replace(call, self.text(owner))

    def move_statement(
        self, node: cst.CSTNode, *, before: cst.CSTNode | None = None, after: cst.CSTNode | None = None
    ) -> list[Edit] | None:
        """Move the statement that contains `node`, with its comment, above or below the statement of another node.

        Exactly one of `before` and `after` must be given. None also if the moved statement is or contains the other.
        """
        goal = before if before is not None else after
        if goal is None or (before is not None and after is not None):
            raise TypeError("move_statement takes either before or after")
        statement, target = self.statement_of(node), self._place(goal)
        rows = self.rows(statement) if statement is not None else None
        if statement is None or rows is None or target is None:
            return None
        if rows[0] <= target[0] and target[1] <= rows[1]:
            return None
        removal = self._removal(statement)
        moved = self._reindented(statement, rows, self._lines.indentation(target[0]))
        if before is not None:
            return [removal, Edit(self._at(target[0]), moved + self.source.newline)] if removal else None
        return [removal, self._insertion_below(target[1], moved)] if removal else None

    def move_statements(self, nodes: Sequence[cst.CSTNode], before: cst.CSTNode) -> list[Edit] | None:
        """Move the statements that contain `nodes`, in this order, above the statement of `before`."""
        target = self._place(before)
        statements = [self.statement_of(node) for node in nodes]
        if target is None or not statements:
            return None
        removals: list[Edit] = []
        moved: list[str] = []
        for statement in dict.fromkeys(statements):
            rows = self.rows(statement) if statement is not None else None
            removal = self._removal(statement) if statement is not None and rows is not None else None
            if statement is None or rows is None or removal is None or rows[0] <= target[0] <= rows[1]:
                return None
            removals.append(removal)
            moved.append(self._reindented(statement, rows, self._lines.indentation(target[0])) + self.source.newline)
        return [*removals, Edit(self._at(target[0]), "".join(moved))]

    def into_region(self, node: cst.CSTNode, context: cst.CSTNode) -> list[Edit] | None:
        """Move the simple statement that contains `node` into the directly following `with` of `context`."""
        region = next((above for above in self.source.ancestors(context) if isinstance(above, cst.With)), None)
        statement, block = self.statement_of(node), list(self.block_of(node))
        if region is None or not isinstance(statement, cst.SimpleStatementLine) or region not in block:
            return None
        if block.index(region) != block.index(statement) + 1 or not isinstance(region.body, cst.IndentedBlock):
            return None
        return self.move_statement(node, before=region.body.body[0])

    def hoist_before(self, statement: cst.CSTNode, target: cst.CSTNode) -> list[Edit] | None:
        """Move a simple statement above another one; None for a compound statement."""
        simple = isinstance(self.statement_of(statement), cst.SimpleStatementLine)
        return self.move_statement(statement, before=target) if simple else None

    def _place(self, node: cst.CSTNode) -> tuple[int, int] | None:
        statement = self.statement_of(node)
        if statement is None or not self._always_run(node, statement):
            return None
        return self.rows(statement)

    def _at(self, row: int) -> Span:
        return Span(Position(row, 1), Position(row, 1))

    def _insertion_below(self, row: int, code: str) -> Edit:
        if row < len(self._lines):
            return Edit(self._at(row + 1), code + self.source.newline)
        end = Position(row, len(self._lines.line(row)) + 1)
        return Edit(Span(end, end), self.source.newline + code)

    def _block(self, node: cst.CSTNode, code: str, indentation: str) -> str:
        level = self.source.chunk_of(node).default_indent
        lines = []
        for line in code.split("\n"):
            stripped = line.lstrip(" ")
            levels, spaces = divmod(len(line) - len(stripped), 4)
            lines.append(f"{indentation}{level * levels}{' ' * spaces}{stripped}" if stripped else "")
        return self.source.newline.join(lines)

    def _removal(self, statement: Statement) -> Edit | None:
        rows = self.rows(statement)
        if rows is None:
            return None
        whole = self._lines.rows(*rows)
        if isinstance(self.source.parent(statement), cst.Module) or len(self.block_of(statement)) > 1:
            return Edit(whole, "")
        start = Position(rows[0], len(self._lines.indentation(rows[0])) + 1)
        return Edit(Span(start, Position(rows[1], len(self._lines.line(rows[1])) + 1)), "pass")

    def _reindented(self, statement: Statement, rows: tuple[int, int], indentation: str) -> str:
        old = self._lines.indentation(rows[0])
        untouched = self.string_rows(statement)
        text = []
        for row in range(rows[0], rows[1] + 1):
            line = self._lines.line(row)
            if row not in untouched and line.startswith(old):
                line = indentation + line[len(old) :]
            text.append(line)
        return self.source.newline.join(text)


def _leaves(statement: cst.CSTNode | None) -> bool:
    """Whether a statement exits the function."""
    small = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    return any(isinstance(one, (cst.Return, cst.Raise)) for one in small)
