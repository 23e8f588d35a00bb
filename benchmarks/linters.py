"""The linters that are compared, and where they are installed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

COMMANDS = {
    "amplint": ("amplint", "check", "--no-cache", "--output-format", "concise"),
    "torchfix": ("torchfix", "--select", "ALL"),
    "ruff": ("ruff", "check", "--no-cache", "--isolated", "--output-format", "concise"),
    "fixit": ("fixit", "lint"),
}
"""Each without its cache and, where it can, without the configuration of what surrounds it."""


def installed(command: tuple[str, ...], peers: Path | None) -> list[str] | None:
    """`command` with the path of its program: beside this Python, in `peers` or on PATH; None where it is missing."""
    folders = [str(folder) for folder in (Path(sys.executable).parent, peers) if folder]
    search = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
    program = shutil.which(command[0], path=search)
    return [program, *command[1:]] if program else None
