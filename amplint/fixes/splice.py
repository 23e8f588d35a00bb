"""Replacement of text by offsets."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from amplint.findings import Edit
from amplint.source.rewrite_lines import Lines

Located = tuple[int, int, str]
"""Start, end and new content of an edit, in offsets."""


def place(edit: Located) -> tuple[int, int]:
    """The sort key of edits: an insertion precedes a replacement that starts at the same offset."""
    return edit[:2]


def order(edit: Located) -> tuple[int, int, int, int]:
    """The sort key of the edits of one fix: what ends a deeper block precedes what follows the block."""
    start, end, content = edit
    ends, begins = content.endswith(("\n", "\r")), content.startswith(("\n", "\r"))
    depth = len(content.lstrip("\r\n")) - len(content.lstrip()) if start == end and (ends or begins) else 0
    return start, end, -1 if ends else 1 if begins else 0, -depth


def locate(lines: Lines, edits: Iterable[Edit]) -> list[Located]:
    """The edits sorted by place, stable for equal places but for whole lines; duplicates are dropped.

    Raises ValueError if one lies outside the text or two overlap.
    """
    located = sorted(((*lines.range(edit.span), edit.content) for edit in dict.fromkeys(edits)), key=order)
    for edit, following in itertools.pairwise(located):
        if following[0] < edit[1]:
            raise ValueError(f"edits overlap at {lines.position(following[0])}")
    return located


def splice(text: str, edits: Iterable[Located]) -> str:
    """`text` with `edits` applied, which must be sorted and disjoint."""
    parts: list[str] = []
    done = 0
    for start, end, content in edits:
        parts += (text[done:start], content)
        done = end
    return "".join([*parts, text[done:]])
