"""What a repair changes, as a unified diff."""

from __future__ import annotations

import difflib
import re

from amplint.reports.text import visible
from amplint.source.encoding import shown_text

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def unified(filename: str, old: bytes, new: bytes, *, escape: bool) -> str:
    """A diff that `patch -p0` takes; with `escape`, for a terminal, control characters are made visible."""
    before, after = (_LINE.findall(shown_text(raw)) for raw in (old, new))
    pieces = difflib.unified_diff(before, after, filename, filename)
    return "".join(_shown(piece, escape) for piece in pieces)


def _shown(piece: str, escape: bool) -> str:
    line = piece.removesuffix("\n")
    if escape:
        line = visible(line.removesuffix("\r").replace("\t", "    "))
    return line + ("\n" if piece.endswith("\n") else "\n\\ No newline at end of file\n")
