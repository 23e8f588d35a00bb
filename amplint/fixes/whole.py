"""A fix with its imports as plain edits, for readers of reports, which add no imports."""

from __future__ import annotations

from amplint.findings import Edit, Fix, Span
from amplint.fixes.apply import apply_round
from amplint.fixes.splice import Located, locate, splice
from amplint.source.rewrite_lines import Lines


def whole_edits(text: str, fix: Fix) -> tuple[Edit, ...]:
    """The edits of `fix` and of the imports it needs, sorted and disjoint.

    Empty if it cannot be applied to `text`, or if an import would have to be inserted within an edit.
    """
    new, applied = apply_round(text, [fix])
    if not applied:
        return ()
    lines = Lines(text)
    located = _joined(locate(lines, fix.edits))
    imported = _inserted(splice(text, located), new)
    if imported is not None:
        before = _offset_before(located, imported[0])
        if before is None:
            return ()
        located = _joined(sorted([*located, (before, before, imported[1])]))
    if splice(text, located) != new:
        return ()
    return tuple(Edit(Span(lines.position(start), lines.position(end)), code) for start, end, code in located)


def _joined(edits: list[Located]) -> list[Located]:
    """`edits` with adjacent ones merged."""
    joined: list[Located] = []
    for start, end, content in edits:
        if joined and joined[-1][1] == start:
            first, _, head = joined.pop()
            joined.append((first, end, head + content))
        else:
            joined.append((start, end, content))
    return joined


def _inserted(old: str, new: str) -> tuple[int, str] | None:
    """The offset and text of an insertion that turns `text` into `new`, at the start of a row if possible."""
    if old == new:
        return None
    more = len(new) - len(old)
    offset = next((index for index, pair in enumerate(zip(old, new, strict=False)) if len({*pair}) > 1), len(old))
    row = old.rfind("\n", 0, offset) + 1
    start = row if old[row:] == new[row + more :] else offset
    return start, new[start : start + more]


def _offset_before(edits: list[Located], offset: int) -> int | None:
    """The offset before `edits` that corresponds to `offset` after them, None inside of an edit."""
    grown = 0
    for start, end, content in edits:
        if offset <= start + grown:
            break
        if offset < start + grown + len(content):
            return None
        grown += len(content) - (end - start)
    return offset - grown
