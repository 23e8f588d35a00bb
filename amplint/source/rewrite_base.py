"""Basics of text edits: exact spans, source text, and the statement around a node."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint.findings import Edit, Position, Span
from amplint.source import syntax as cst
from amplint.source.rewrite_lines import LINE_TAIL, Lines
from amplint.source.source import NEWLINE, Source
from amplint.source.tree import walk

if TYPE_CHECKING:
    import libcst

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement

_ATOMS = (
    cst.Attribute,
    cst.Call,
    cst.DictComp,
    cst.FormattedString,
    cst.List,
    cst.ListComp,
    cst.Name,
    cst.Set,
    cst.SetComp,
    cst.SimpleString,
    cst.Subscript,
    cst.Dict,
)
_NOT_ALWAYS_RUN = (cst.Lambda, cst.BaseComp, cst.IfExp, cst.BooleanOperation)


class RewriterBase:
    """Queries about the source that edits are built for."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @functools.cached_property
    def _lines(self) -> Lines:
        return Lines(self.source.text)

    def span(self, node: cst.CSTNode) -> Span:
        """The range of `node`, including its own parentheses."""
        return self.source.chunk_of(node).outer_span(node)

    def parentheses(self, node: cst.CSTNode) -> int:
        """The number of `node`'s own pairs of parentheses."""
        return len(self.source.chunk_of(node).parentheses(node))

    def concrete(self, node: cst.CSTNode) -> libcst.CSTNode:
        """libcst's node for `node`, with white space and punctuation. Raises SourceError.

        libcst parses the chunk that contains it, a whole top-level function or class.
        """
        return self.source.concrete(node)

    def text(self, node: cst.CSTNode) -> str:
        """The source text of `node`, including its own parentheses."""
        return self._slice(self.span(node))

    def operand(self, node: cst.BaseExpression) -> str:
        """The source text of `node`, parenthesised if `.attribute` could not follow it otherwise."""
        text = self.text(node)
        return text if isinstance(node, _ATOMS) or self.parentheses(node) else f"({text})"

    def replace(self, node: cst.CSTNode, new_text: str) -> Edit:
        """Replace `node` and its own parentheses by `new_text`."""
        return Edit(self.span(node), self._adapted(new_text))

    def row_before(self, position: Position) -> str:
        """The text of a row up to `position`."""
        return self._lines.before(position)

    def statement_of(self, node: cst.CSTNode) -> Statement | None:
        """The statement that contains `node` (or is it), None for `a` and `b` of `if x: a` and `elif b:`."""
        for above in (node, *self.source.ancestors(node)):
            if isinstance(above, cst.SimpleStatementSuite):
                return None
            if isinstance(above, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                holder = self.source.parent(above)
                return above if isinstance(holder, (cst.IndentedBlock, cst.Module)) else None
        return None

    def block_of(self, node: cst.CSTNode) -> Sequence[cst.BaseStatement | cst.BaseSmallStatement]:
        """The statements of the block that contains the statement of `node`.

        At the top level these are only the statements of the same chunk.
        """
        statement = self.statement_of(node)
        holder = statement and self.source.parent(statement)
        return holder.body if isinstance(holder, (cst.IndentedBlock, cst.Module)) else ()

    def names(self, node: cst.CSTNode) -> set[str]:
        """The variables that `node` reads."""
        return {inner.value for inner in walk(node) if isinstance(inner, cst.Name)}

    def occurrences(self, node: cst.CSTNode, within: cst.CSTNode) -> int:
        """The number of expressions of the kind of `node` in `within` that are written like it."""
        text = self.text(node)
        return sum(type(one) is type(node) and self.text(one) == text for one in walk(within))

    def body_of(self, node: cst.With) -> Sequence[cst.BaseStatement | cst.BaseSmallStatement]:
        """The statements directly in a `with` block."""
        return node.body.body

    def is_fixed(self, node: cst.BaseExpression) -> bool:
        """Whether no caller can change the value of an expression, which reads no attribute and no parameter."""
        function = self._function_of(node)
        params = walk(function.params) if function is not None else ()
        parameters = {inner.name.value for inner in params if isinstance(inner, cst.Param)}
        inside = list(walk(node))
        calls = [inner.func for inner in inside if isinstance(inner, cst.Call)]
        attributes = any(isinstance(inner, cst.Attribute) for inner in inside if inner not in calls)
        return not attributes and not self.names(node) & parameters

    def same_function(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether both nodes run in one function of this file, or both at its top level."""
        return self.source.owns(one) and self.source.owns(other) and self._function_of(one) is self._function_of(other)

    def is_in_loop_without(self, node: cst.CSTNode, method: str) -> bool:
        """Whether the innermost loop around `node` calls no method of that name."""
        loops = (above for above in self.source.ancestors(node) if isinstance(above, (cst.For, cst.While)))
        loop = next(loops, None)
        called = (found.func for found in walk(loop) if isinstance(found, cst.Call)) if loop is not None else ()
        named = (func.attr.value for func in called if isinstance(func, cst.Attribute))
        return loop is not None and method not in named

    def shares_block(self, node: cst.CSTNode, inner: cst.CSTNode) -> bool:
        """Whether `inner` is in the block of `node`'s statement, or in a block nested in it.

        If `node` comes first, it has run, once or more, whenever `inner` runs, unless it left the block.
        """
        if not self.same_function(node, inner):
            return False
        block = self._holder(node)
        return block is None or any(above is block for above in self.source.ancestors(inner))

    def call_towards(self, inner: cst.CSTNode, node: cst.CSTNode) -> cst.Call | None:
        """The call, in the block of `node` or around it, of the method of the same class that contains `inner`."""
        method, own = self._function_of(inner), self._function_of(node)
        if not isinstance(method, cst.FunctionDef) or own is None or method is own:
            return None
        if self.source.parent(method) is not self.source.parent(own):
            return None
        calls = (found for found in walk(own.body) if isinstance(found, cst.Call))
        called = [found for found in calls if self.text(found.func) == f"self.{method.name.value}"]
        return called[0] if len(called) == 1 and self.shares_block(called[0], node) else None

    def branch_towards(self, node: cst.CSTNode, inner: cst.CSTNode) -> cst.CSTNode | None:
        """The statement in the block of `node`'s statement that contains `inner` at any depth."""
        block = self._holder(node)
        below = inner
        for above in self.source.ancestors(inner):
            if above is block or (block is None and isinstance(above, cst.Module)):
                return below
            below = above
        return None

    def _function_of(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Lambda | None:
        return next((a for a in self.source.ancestors(node) if isinstance(a, (cst.FunctionDef, cst.Lambda))), None)

    def _holder(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The block around the statement that contains `node`, None for the top level of the file."""
        kinds = (cst.IndentedBlock, cst.SimpleStatementSuite)
        return next((above for above in self.source.ancestors(node) if isinstance(above, kinds)), None)

    def _next(self, position: Position, sign: str) -> Span | None:
        """The position of `sign`, if it is the next token after `position`."""
        place = self.source.layout.after(self._lines.offset(position))
        return self.source.span_of((place, place + len(sign))) if self.source.text.startswith(sign, place) else None

    def _slice(self, span: Span) -> str:
        start, end = self._lines.range(span)
        return self.source.text[start:end]

    def _adapted(self, code: str) -> str:
        """`code` with the line breaks of the file."""
        return NEWLINE.sub(lambda _: self.source.newline, code)

    def start(self, statement: cst.CSTNode) -> Position:
        """The position at which a statement begins, decorators included."""
        decorators = getattr(statement, "decorators", ())
        return self.source.span(decorators[0] if decorators else statement).start

    def rows(self, statement: cst.CSTNode) -> tuple[int, int] | None:
        """First row (decorators included) and last row of a statement, None if it shares a row with others."""
        start, end = self.start(statement), self.source.span(statement).end
        if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) > 1:
            return None
        if self._lines.before(start).strip(" \t") or not LINE_TAIL.fullmatch(self._lines.after(end)):
            return None
        return start.row, end.row

    def string_rows(self, node: cst.CSTNode) -> set[int]:
        """The rows below the first of `node` that start within a string."""
        rows: set[int] = set()
        for inner in walk(node):
            if isinstance(inner, cst.BaseString) and not isinstance(inner, cst.ConcatenatedString):
                span = self.source.span(inner)
                rows.update(range(span.start.row + 1, span.end.row + 1))
        return rows

    def _always_run(self, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
        """Whether `node` is evaluated exactly once, and when `statement` starts or runs."""
        inner = node
        for above in self.source.ancestors(node) if node is not statement else ():
            if isinstance(above, _NOT_ALWAYS_RUN) or (isinstance(above, cst.While) and above.test is inner):
                return False
            if above is statement:
                break
            inner = above
        return True
