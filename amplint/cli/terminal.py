"""What the terminal wants: colours or none, how wide, and a sign of life while something takes long."""

from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType
from typing import TextIO

_PATIENCE_S = 0.7
_INTERVAL_S = 0.1


def wants_colour(stream: TextIO) -> bool:
    """Whether to write ANSI colours to `stream`; NO_COLOR and FORCE_COLOR count when they are not empty."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns to fill: those of the terminal (or COLUMNS), within limits that stay readable; 80 where unknown."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 60), 120)


class Progress:
    """A line on standard error that counts files; nothing when that is no terminal or the work is done soon."""

    def __init__(self, total: int, *, hidden: bool) -> None:
        self._total = total
        self._hidden = hidden or not sys.stderr.isatty()
        self._done = 0
        self._next = time.monotonic() + _PATIENCE_S
        self._shown = False

    def __call__(self, done: int) -> None:
        """Count `done` more files."""
        self._done += done
        if not self._hidden and time.monotonic() >= self._next:
            filled = 30 * self._done // max(1, self._total)
            bar = "#" * filled + "." * (30 - filled)
            sys.stderr.write(f"\r[{bar}] {self._done}/{self._total} files")
            sys.stderr.flush()
            self._next = time.monotonic() + _INTERVAL_S
            self._shown = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * 60 + "\r")
            sys.stderr.flush()
