"""Making untrusted text safe to show: linted code may hold escape sequences and characters that reorder a line."""

from __future__ import annotations

import os
import re
import textwrap
import unicodedata

_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def visible(text: str) -> str:
    """`text` with control, direction and zero-width characters as escapes such as `\\x1b`."""
    return _INVISIBLE.sub(_escape, text)


def one_line(text: str) -> str:
    """`text` with every run of white space as one space, and made `visible`."""
    return visible(" ".join(text.split()))


def from_here(filename: str) -> str:
    """`filename` from the current folder on, where it lies in it; `elsewhere` where it is empty."""
    if not filename:
        return "elsewhere"
    inside = os.path.relpath(filename)
    return filename if inside.startswith(os.pardir) else inside


def columns(text: str) -> int:
    """How many terminal columns `text` takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def wrap(text: str, width: int, indent: str, first: str | None = None) -> list[str]:
    """`text` in lines of at most `width` columns that start with `indent`, the first one with `first` instead.

    Lines that are indented are code and are kept as they are.
    """
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        start = indent if lines or first is None else first
        if line.startswith((" ", "\t")):
            lines.append(start + visible(line.expandtabs(4)))
        else:
            lines += textwrap.wrap(
                one_line(line),
                width,
                initial_indent=start,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            ) or [start.rstrip()]
    return lines


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape", "surrogatepass").decode("ascii")
