"""Sanitised text: linted code may contain escape sequences, bidirectional controls and CI commands."""

from __future__ import annotations

import json
import os
import re
import textwrap
import unicodedata
from collections.abc import Iterable

from amplint.regex import regex

_INVISIBLE = regex(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff9-\ufffb\ufffe\uffff]"
)
_COMMAND_ANYWHERE = regex(r"#(?=#\w*\[)")
"""The first character of `##vso[`, `##teamcity[` and `##[`."""
_COMMAND = regex(rf"(?<!\S):(?=:)|{_COMMAND_ANYWHERE.pattern}")
"""The same, and that of `::set-output` where a word begins with it: as a line's first word it is a command."""


def visible(text: str) -> str:
    r"""`text` with control, direction and zero-width characters, and CI commands, as escapes (`\x1b`)."""
    return _COMMAND.sub(lambda found: _hex_of(found.group()), _INVISIBLE.sub(_escape, text))


def without_commands(text: str) -> str:
    """`text` with only CI commands escaped."""
    return _COMMAND.sub(lambda found: _hex_of(found.group()), text)


def visible_lines(text: str) -> str:
    """The lines of `text`, each made `visible`."""
    return "\n".join(visible(line) for line in text.splitlines())


def visible_cells(line: str) -> list[str]:
    """The text shown for each character of a line of code, tabs as four columns."""
    first = {found.start() for found in _COMMAND_ANYWHERE.finditer(line)}
    if not first and line.isascii() and line.isprintable():
        return list(line)
    return [
        "    " if character == "\t" else _hex_of(character) if index in first else _INVISIBLE.sub(_escape, character)
        for index, character in enumerate(line)
    ]


def json_text(value: object, indent: int | None = None) -> str:
    """`value` as ASCII JSON without CI commands."""
    return _COMMAND_ANYWHERE.sub(r"\\u0023", json.dumps(value, indent=indent))


def fitting(pieces: Iterable[str], room: int) -> list[str]:
    """As many of the first `pieces` as fit into `room` characters; the others are not evaluated."""
    taken: list[str] = []
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            break
        taken.append(piece)
    return taken


def one_line(text: str) -> str:
    """`text` with every run of white space as one space, made `visible`."""
    return visible(" ".join(text.split()))


def display_path(filename: str) -> str:
    """`filename` relative to site-packages, to the current folder, or absolute, whichever is shortest.

    `elsewhere` if it is empty.
    """
    from amplint.trace.packages import package_path

    if not filename:
        return "elsewhere"
    return package_path(filename) or min(os.path.relpath(filename), os.path.abspath(filename), key=len)


def columns(text: str) -> int:
    """The width of `text` in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def cut(text: str, room: int) -> str:
    """`text`, or as much of it as fits into `room` columns with an ellipsis."""
    return text if columns(text) <= room else text[: room - 4] + " ..."


def wrap(text: str, width: int, indent: str, first: str | None = None) -> list[str]:
    """`text` in lines of at most `width` columns that start with `indent`, the first with `first` instead.

    Indented lines are code and are kept.
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


def _hex_of(character: str) -> str:
    return f"\\x{ord(character):02x}"
