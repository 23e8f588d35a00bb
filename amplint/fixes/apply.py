"""Application of compatible fixes to a text, with the imports that they need, and verified."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Collection, Sequence

from amplint.findings import Fix
from amplint.fixes.imports import add_imports, can_import, remove_stale_imports
from amplint.fixes.splice import Located, locate, order, place, splice
from amplint.fixes.verify import verify
from amplint.source.rewrite_lines import INDENTATION, Lines


def apply_round(text: str, fixes: Sequence[Fix]) -> tuple[str, list[Fix]]:
    """The text with as many compatible `fixes` as possible, and the list of these.

    The fix that starts first wins over those that overlap or touch it; lint the result again to apply the others.
    Fixes may insert at the same place if their code is equally indented, and may share an insertion. A fix is skipped
    as a whole if its edits overlap one another, lie outside the text or change nothing, or if a name it wants to import
    is bound to something else in the file.
    """
    lines = Lines(text)
    located = [(edits, fix) for fix in fixes if (edits := _located(lines, fix))]
    located.sort(key=lambda pair: place(pair[0][0]))
    can = functools.cache(functools.partial(can_import, text))
    taken: list[Located] = []
    applied: list[Fix] = []
    for edits, fix in located:
        new = _new_edits(edits, taken)
        if new is None or (fix.imports and not can(fix.imports)):
            continue
        for edit in new:
            bisect.insort(taken, edit, key=order)
        applied.append(fix)
    return add_imports(splice(text, taken), [statement for fix in applied for statement in fix.imports]), applied


def apply_verified(text: str, fixes: Sequence[Fix], keep: Collection[str] = ()) -> tuple[str, list[Fix], str | None]:
    """The text after `apply_round`, without imports that are unused then except those of names in `keep`; the fixes.

    The last is the reason why the result must not replace `text`, None if it may.
    """
    new, applied = apply_round(text, fixes)
    new = remove_stale_imports(text, new, keep)
    return new, applied, verify(text, new, [edit for fix in applied for edit in fix.edits])


def _located(lines: Lines, fix: Fix) -> list[Located]:
    """The edits of `fix` by offsets, empty if they cannot be applied or change nothing."""
    try:
        edits = locate(lines, fix.edits)
    except ValueError:
        return []
    return edits if any(lines.text[start:end] != content for start, end, content in edits) else []


def _new_edits(edits: list[Located], taken: list[Located]) -> list[Located] | None:
    """Those of `edits` not in `taken`, None if one of them conflicts with a taken edit."""
    near = {edit: _touching(edit, taken) for edit in edits}
    if all(edit in near[edit] for edit in edits):
        return []
    new: list[Located] = []
    for edit in edits:
        start, end, _ = edit
        if start == end and edit in near[edit]:
            continue
        if any(not _go_together(edit, other) for other in near[edit]):
            return None
        new.append(edit)
    return new


def _touching(edit: Located, taken: list[Located]) -> list[Located]:
    """The taken edits that overlap or touch `edit`; taken edits are sorted, so they are adjacent to its place."""
    start, end, _ = edit
    first = last = bisect.bisect_left(taken, (start, start), key=place)
    while first > 0 and taken[first - 1][1] >= start:
        first -= 1
    while last < len(taken) and taken[last][0] <= end:
        last += 1
    return taken[first:last]


def _go_together(edit: Located, other: Located) -> bool:
    """Whether both are insertions at one place with the same indentation, so that neither changes the other's block."""
    if not edit[0] == edit[1] == other[0] == other[1]:
        return False
    indentations = [found.group() for _, _, code in (edit, other) if (found := INDENTATION.match(code))]
    return indentations[0] == indentations[1]
