"""One line of a .gitignore, matched in time linear in both lengths.

A wildcard never backtracks: the text between two wildcards is searched once, from left to right, and its first match is
as good as any later one. Python's `re` has atomic groups only from 3.11 on, so they are written as a lookahead and a
backreference.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from amplint.records import dataclass
from amplint.regex import regex

_WILD = frozenset("*?[\\")
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_CLASS = regex(r"\[:(\w+):\]")


@dataclass(frozen=True)
class Glob:
    """A parsed line: matching names are ignored or, if `negated`, not ignored.

    `whole` patterns match the path relative to the .gitignore's folder, others the last component. `literal` is the
    only text that matches, None if `regex` decides.
    """

    negated: bool
    folders_only: bool
    whole: bool
    literal: str | None
    regex: re.Pattern[str] | None


def parse(line: str) -> Glob | None:
    """Parse a line of a .gitignore; None for a blank line or a comment. Raises ValueError if it is invalid."""
    text = line.rstrip("\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[negated:]
    folders_only = text.endswith("/")
    text = text[:-1] if folders_only else text
    whole = "/" in text
    text = text[text.startswith("/") :]
    if not text:
        return None
    if _WILD.isdisjoint(text):
        return Glob(negated, folders_only, whole, text, None)
    try:
        return Glob(negated, folders_only, whole, None, re.compile(_path(text), re.DOTALL))
    except re.error as failure:
        raise ValueError(str(failure)) from None


def _path(text: str) -> str:
    """The regular expression of a pattern that may contain slashes; `**` matches any folders."""
    groups = itertools.count()
    segments = text.split("/")
    tail = r"\Z"
    if segments[-1] == "**" and len(segments) > 1:
        segments.pop()
        tail = r"/.+\Z"
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            runs.append([])
        else:
            runs[-1].append(_segment(segment, groups))
    first, *others = ["/".join(run) for run in runs]
    written = first + "/" * bool(first and others)
    for run in others[:-1]:
        if run:
            written += _once(f"(?:[^/]+/)*?{run}/", groups)
    if not others:
        return written + tail
    return f"{written}(?:[^/]+/)*{others[-1]}" + (tail if others[-1] else r"[^/].*\Z")


def _segment(text: str, groups: Iterator[int]) -> str:
    """The regular expression of a pattern without slashes."""
    pieces = [""]
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[":
            position, written = _bracket(text, position)
            pieces[-1] += written
        elif character == "\\":
            if position == len(text):
                raise ValueError("nothing follows the last backslash")
            pieces[-1] += re.escape(text[position])
            position += 1
        else:
            pieces[-1] += re.escape(character)
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(_once(f"[^/]*?{piece}", groups) for piece in pieces[1:-1] if piece)
    return f"{pieces[0]}{middle}[^/]*{pieces[-1]}"


def _once(pattern: str, groups: Iterator[int]) -> str:
    """`pattern` as an atomic group."""
    name = f"g{next(groups)}"
    return f"(?=(?P<{name}>{pattern}))(?P={name})"


def _bracket(text: str, start: int) -> tuple[int, str]:
    """The end of the bracket expression that begins at `start`, and its regular expression. Raises ValueError."""
    position = start + (text[start : start + 1] in ("!", "^"))
    inside = ""
    while position < len(text) and (text[position] != "]" or not inside):
        named = _CLASS.match(text, position)
        if named is not None:
            if named[1] not in _CLASSES:
                raise ValueError(f"there are no characters called {named[1]}")
            inside += _CLASSES[named[1]]
            position = named.end()
            continue
        escaped = text[position] == "\\"
        position += escaped
        if position < len(text):
            dash = text[position] == "-" and not escaped
            inside += "-" if dash else re.escape(text[position]).replace("/", "")
            position += 1
    if position >= len(text):
        raise ValueError("a bracket is not closed")
    return position + 1, f"(?!/)[{'^' * (text[start] in '!^')}{inside}]"
