"""Making a failing case small: what can be left out of it while it fails in the same way is left out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable


def same_way(one: str | None, other: str | None) -> bool:
    """Whether two failures are alike but for names and numbers."""
    return one is not None and other is not None and _kind(one) == _kind(other)


def _kind(failure: str) -> str:
    return re.sub(r"\d+|'[^']*'|\"[^\"]*\"", "", failure)[:80]


def smaller(raw: bytes, fails: Callable[[bytes], bool], seconds: float) -> bytes:
    """`raw` without lines, and then without pieces of lines, that it need not have to fail; for at most so long."""
    end = time.monotonic() + seconds
    for pattern in (rb"[^\n]*\n|[^\n]+", rb"\w+|\s+|[^\w\s]"):
        pieces = re.findall(pattern, raw)
        size = max(1, len(pieces) // 2)
        while size and time.monotonic() < end:
            at = 0
            while at < len(pieces) and time.monotonic() < end:
                fewer = pieces[:at] + pieces[at + size :]
                if fails(b"".join(fewer)):
                    pieces = fewer
                else:
                    at += size
            size //= 2
        raw = b"".join(pieces)
    return raw
