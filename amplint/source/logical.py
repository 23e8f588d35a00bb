"""Logical lines: the rows of a simple statement, or of the header of a compound one."""

from __future__ import annotations

import io
import tokenize

from amplint.findings import Position

_LAYOUT = frozenset({tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER})


def logical_ends(text: str) -> dict[int, Position]:
    """Row -> end of the last row of its logical line, comment included; rows without code are absent.

    Empty for a text that cannot be tokenized.
    """
    ends: dict[int, Position] = {}
    first: int | None = None
    lines = io.StringIO(text, newline=None).readlines()
    try:
        for token in tokenize.generate_tokens(iter(lines).__next__):
            if token.type == tokenize.NEWLINE and first is not None:
                row = token.start[0]
                end = Position(row, len(lines[row - 1].rstrip()) + 1)
                ends.update(dict.fromkeys(range(first, row + 1), end))
                first = None
            elif token.type not in _LAYOUT and first is None:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError):
        return {}
    return ends
