"""Row-by-row comparison of two versions of a text."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from amplint.codemods.conversion import Change, Remark
from amplint.findings import Edit, Fix, Position, Span
from amplint.source.rewrite_lines import Lines
from amplint.source.source import NEWLINE

_ALIKE = 0.6
"""The similarity below which rows are different ones."""
_Block = tuple[str, int, int, int, int]


@functools.lru_cache(maxsize=4)
def _blocks(old: str, new: str) -> Sequence[_Block]:
    """The equal, replaced, deleted and inserted blocks, by rows counted from 0."""
    matcher = difflib.SequenceMatcher(None, old.splitlines(True), new.splitlines(True), autojunk=False)
    return matcher.get_opcodes()


def changed_edits(old: str, new: str) -> tuple[Edit, ...]:
    """The edits of whole rows that turn `old` into `new`."""
    before, after = Lines(old), new.splitlines(True)
    edits = []
    for kind, first, last, start, end in _blocks(old, new):
        if kind == "equal":
            continue
        begin = _start(before, first)
        if start < end:
            edits.append(Edit(Span(begin, begin), "".join(after[start:end])))
        if first < last:
            edits.append(Edit(Span(begin, _start(before, last)), ""))
    return tuple(edits)


def _start(lines: Lines, row: int) -> Position:
    """The beginning of the row `row`, counted from 0."""
    if row < len(lines):
        return Position(row + 1, 1)
    return Position(len(lines), len(lines.line(len(lines))) + 1)


def row_after(old: str, new: str, row: int) -> int:
    """The row of `new` that corresponds to the row `row` of `old`, or stands in its place."""
    for _, first, last, start, end in _blocks(old, new):
        if first < row <= last:
            return min(start + min(row - first, max(1, end - start)), max(1, len(new.splitlines())))
    return row


def moved(old: str, new: str, remarks: Iterable[Remark]) -> Iterator[Remark]:
    """The `remarks` on rows of `old`, by the rows of `new`."""
    return (replace(remark, row=row_after(old, new, remark.row)) for remark in remarks)


def row_edited(old: str, new: str, edits: Sequence[Edit], row: int) -> int:
    """The row of `new` that corresponds to the row `row` of `old` after `edits`, with imports above all of them."""
    lines = Lines(old)

    def grown(edit: Edit) -> int:
        return len(NEWLINE.findall(edit.content)) - (edit.span.end.row - edit.span.start.row)

    imported = len(Lines(new)) - len(lines) - sum(map(grown, edits))
    return row + imported + sum(grown(edit) for edit in edits if edit.span.start <= Position(row, 1))


def row_before(old: str, new: str, row: int) -> int:
    """The row of `old` that corresponds to the row `row` of `new`, or stood in its place.

    Of several replaced rows, it is the most similar one, indentation apart.
    """
    before, after = old.splitlines(), new.splitlines()
    for kind, start, end, first, last in _blocks(old, new):
        if kind == "replace" and first < row <= last:
            words = after[row - 1].strip()
            ratios = [difflib.SequenceMatcher(None, line.strip(), words).ratio() for line in before[start:end]]
            best = max(range(len(ratios)), key=lambda index: ratios[index])
            if ratios[best] > _ALIKE:
                return start + best + 1
    return row_after(new, old, row)


def rewritten(old: str, new: str, message: str, left: Iterable[Remark] = ()) -> Change | None:
    """The change that turns `old` into `new`, with remarks by the rows of `old`; None if they are equal."""
    edits = changed_edits(old, new)
    if not edits:
        return None
    done = Remark(min(edit.span.start.row for edit in edits), message)
    return Change(Fix(message, edits), (done,), tuple(moved(old, new, left)))


def tidied(old: str, new: str) -> str:
    """`new` without surplus blank rows where rows between blank ones were deleted."""
    rows = new.splitlines(True)
    surplus: set[int] = set()
    for kind, _, _, start, end in _blocks(old, new):
        if kind == "delete" and start == end:
            above, below = start, start
            while above > 0 and not rows[above - 1].strip():
                above -= 1
            while below < len(rows) and not rows[below].strip():
                below += 1
            surplus.update(range(start, start + min(start - above, below - start)))
    return "".join(row for index, row in enumerate(rows) if index not in surplus)
