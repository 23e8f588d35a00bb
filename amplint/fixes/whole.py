"""One fix as edits that need nothing else: for readers of reports, who add no imports."""

from __future__ import annotations

from amplint.findings import Edit, Fix, Span
from amplint.fixes.apply import apply_round
from amplint.fixes.splice import Located, locate, splice
from amplint.source.rewrite_lines import Lines


def whole_edits(text: str, fix: Fix) -> tuple[Edit, ...]:
    """The edits of `fix` and those that import what it needs, in order and apart from each other.

    Empty where it cannot be applied to `text`, or where the imports would have to stand inside of an edit.
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
    """`edits` with those that touch each other as one."""
    joined: list[Located] = []
    for start, end, content in edits:
        if joined and joined[-1][1] == start:
            first, _, head = joined.pop()
            joined.append((first, end, head + content))
        else:
            joined.append((start, end, content))
    return joined


def _inserted(old: str, new: str) -> tuple[int, str] | None:
    """Where `new` has something more than `old`, from the start of a row on if that is possible, and what."""
    if old == new:
        return None
    more = len(new) - len(old)
    offset = next((index for index, pair in enumerate(zip(old, new, strict=False)) if len({*pair}) > 1), len(old))
    row = old.rfind("\n", 0, offset) + 1
    start = row if old[row:] == new[row + more :] else offset
    return start, new[start : start + more]


def _offset_before(edits: list[Located], offset: int) -> int | None:
    """What was at `offset` before `edits`, None for what is inside of one."""
    grown = 0
    for start, end, content in edits:
        if offset <= start + grown:
            break
        if offset < start + grown + len(content):
            return None
        grown += len(content) - (end - start)
    return offset - grown
