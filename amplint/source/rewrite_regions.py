"""Edits that shorten or remove a `with` region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from amplint.findings import Edit
from amplint.records import dataclass
from amplint.regex import regex
from amplint.source import syntax as cst
from amplint.source.rewrite_base import RewriterBase
from amplint.source.tree import targets, walk

_COMMENT_ONLY = regex(r"[ \t]*(#.*)?")


@dataclass(frozen=True, slots=True)
class _Region:
    """A `with` that can be edited, by rows; `header` ends with the colon, `comment` follows it."""

    node: cst.With
    body: Sequence[cst.BaseStatement]
    header: str
    comment: str
    first_row: int
    header_row: int
    last_row: int
    outer: str
    inner: str


class RegionEdits(RewriterBase):
    """Edits that shorten or remove a `with` region.

    The whole change is one edit, so that no other fix can insert a line into it, which would then be indented wrongly.
    All return None for `async with`, several context managers, a one-line body, `as` if the name would change its
    meaning, and indentation that cannot be reduced line by line. Lines that start within a string are kept.
    """

    def end_region(
        self, with_node: cst.With, first: cst.CSTNode, keep_inside: Callable[[cst.BaseStatement], bool]
    ) -> Edit | None:
        """End the region before `first`, a statement directly in its body.

        `first` and its successors are dedented, except statements that satisfy `keep_inside`: these stay in the region,
        under a copy of its header. The caller guarantees that the context manager can be re-entered. None if the region
        would be empty (see `drop_region`) or if the header reads a name that the body assigns.
        """
        region = self._region(with_node)
        start = next((index for index, statement in enumerate(with_node.body.body) if statement is first), None)
        if region is None or start is None or (isinstance(first, cst.SimpleStatementLine) and len(first.body) > 1):
            return None
        kept = {index for index in range(start + 1, len(region.body)) if keep_inside(region.body[index])}
        if (start == 0 and not kept) or (kept and not self._can_reopen(region, region.body[: max(kept)])):
            return None
        first_rows = [self._commented_row(region, index) for index in range(start, len(region.body))]
        header = region.header + region.comment if start == 0 else region.header
        untouched = self.string_rows(with_node)
        lines: list[str] = []
        for index, (row, end) in enumerate(zip(first_rows, [*first_rows[1:], region.last_row + 1], strict=True), start):
            if index in kept and index - 1 not in kept:
                lines.append(f"{region.outer}{header}{self.source.newline}")
                header = region.header
            dedented = () if index in kept else range(row, end)
            lines.extend(
                self._line(region, at, dedent=at in dedented and at not in untouched) for at in range(row, end)
            )
        return Edit(
            self._lines.rows(region.first_row if start == 0 else first_rows[0], region.last_row), "".join(lines)
        )

    def drop_region(self, with_node: cst.With, *, named: bool = False) -> Edit | None:
        """Remove the region: delete the header, keep its comment on a line of its own, dedent the body.

        With `named` the caller guarantees that the name bound by `as` is no longer needed.
        """
        region = self._region(with_node)
        if region is None or (with_node.items[0].asname is not None and not named) or "#" in region.header:
            return None
        untouched = self.string_rows(with_node)
        comment = region.comment.strip()
        lines = [f"{region.outer}{comment}{self.source.newline}"] if comment else []
        rows = range(region.header_row + 1, region.last_row + 1)
        lines.extend(self._line(region, row, dedent=row not in untouched) for row in rows)
        return Edit(self._lines.rows(region.first_row, region.last_row), "".join(lines))

    def _region(self, node: cst.With) -> _Region | None:
        rows = self.rows(node)
        if rows is None or node.asynchronous is not None or len(node.items) != 1:
            return None
        if not isinstance(node.body, cst.IndentedBlock) or not node.body.body:
            return None
        span = self.source.span(node)
        items = self.span(node.items[0])
        comma = self._next(items.end, ",") or items
        items = self._next(comma.end, ")") or items
        colon = self.source.text.index(":", self._lines.offset(items.end))
        header_end = self._lines.position(colon + 1)
        comment = self._lines.after(header_end)
        if not _COMMENT_ONLY.fullmatch(comment):
            return None
        outer = self._lines.indentation(rows[0])
        inner = self._lines.indentation(self.source.span(node.body.body[0]).start.row)
        region = _Region(
            node=node,
            body=node.body.body,
            header=self.source.text[self._lines.offset(span.start) : colon + 1],
            comment=comment,
            first_row=rows[0],
            header_row=header_end.row,
            last_row=self._footer_row(rows[1], inner),
            outer=outer,
            inner=inner,
        )
        return region if self._is_even(region) else None

    def _is_even(self, region: _Region) -> bool:
        """Whether every statement of the body has the same indentation, character by character."""
        if not region.inner.startswith(region.outer):
            return False
        return all(
            self._lines.line(self.source.span(inner).start.row).startswith(region.inner)
            for statement in region.body
            for inner in walk(statement)
            if isinstance(inner, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        )

    def _footer_row(self, last_row: int, inner: str) -> int:
        """The last row of the comments that follow the body at its own indentation."""
        row = last_row
        while row < len(self._lines):
            row += 1
            if self._lines.comment(row) and self._lines.line(row).startswith(inner):
                last_row = row
            elif not self._lines.blank(row):
                break
        return last_row

    def _commented_row(self, region: _Region, index: int) -> int:
        """The first row of a statement of the body together with the comments directly above it."""
        if index == 0:
            return region.header_row + 1
        return self._lines.commented(
            self.start(region.body[index]).row, self.source.span(region.body[index - 1]).end.row
        )

    def _line(self, region: _Region, row: int, *, dedent: bool) -> str:
        line = self.source.text[self._lines.start(row) : self._lines.start(row + 1)]
        if dedent and line.startswith(region.inner):
            return region.outer + line[len(region.inner) :]
        return line

    def _can_reopen(self, region: _Region, before: Iterable[cst.BaseStatement]) -> bool:
        """Whether the header has the same meaning after the statements `before`."""
        item = region.node.items[0]
        if item.asname is not None:
            return False
        read = {self.text(node) for node in walk(item) if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))}
        bound = (node for statement in before for inner in walk(statement) for node in _bound_by(inner))
        return all(self.text(node) not in read for node in bound)


def _bound_by(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The names, attributes and items that `node` itself assigns or deletes."""
    if isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.NamedExpr, cst.For, cst.Del)):
        yield from targets(node.target)
    elif isinstance(node, cst.AsName):
        yield from targets(node.name)
