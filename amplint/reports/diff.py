"""The changes of a repair as a unified diff."""

from __future__ import annotations

import difflib
import os

from amplint.notebooks.reading import cells_of
from amplint.regex import regex
from amplint.reports.places import file_label
from amplint.reports.text import visible, without_commands
from amplint.source.encoding import shown_text

_LINE = regex(r"[^\n]*\n|[^\n]+")


CI_SYSTEMS = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Variables of the environment in which a line of output can be a command."""


def unified(filename: str, old: bytes, new: bytes, *, escape: bool) -> str:
    """A diff for `patch -p0`; with `escape`, for a terminal, control characters are made visible.

    Text that a CI system would take for a command is always made visible: a patch of such lines does not apply.

    The diff of a notebook has a part for each changed cell, and is for reading only.
    """
    before, after = cells_of(filename, old), cells_of(filename, new)
    if before is None or after is None:
        return _diff(filename, shown_text(old), shown_text(new), escape)
    return "".join(
        _diff(file_label(filename, cell), f"{source}\n", f"{after[cell]}\n", escape)
        for cell, source in before.items()
        if source != after[cell]
    )


def _diff(name: str, old: str, new: str, escape: bool) -> str:
    pieces = difflib.unified_diff(_LINE.findall(old), _LINE.findall(new), name, name)
    return "".join(_shown(piece, escape) for piece in pieces)


def _shown(piece: str, escape: bool) -> str:
    line = piece.removesuffix("\n")
    if any(name in os.environ for name in CI_SYSTEMS):
        line = without_commands(line)
    if escape:
        line = visible(line.removesuffix("\r").replace("\t", "    "))
    return line + ("\n" if piece.endswith("\n") else "\n\\ No newline at end of file\n")
