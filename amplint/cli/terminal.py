"""Properties of the terminal: colours, width, and a progress line."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TextIO

from amplint.reports.text import columns as cells
from amplint.reports.text import visible

_PATIENCE_S = 0.7
_INTERVAL_S = 0.1
_LONG_S = 2.0
"""From when on a file takes long enough to be named."""
_CLEAR = "\r\x1b[2K"


def is_terminal(stream: object) -> bool:
    """Whether `stream`, which a script may have substituted for standard error, is a terminal."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):  # the script's own object, or closed
        return False


def wants_colour(stream: TextIO) -> bool:
    """Whether to write ANSI colours to `stream`; NO_COLOR and FORCE_COLOR are respected if not empty."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def width() -> int:
    """The number of columns to fill: of the terminal (or COLUMNS), within readable limits; 80 if unknown."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 60), 120)


class Progress:
    """A line on standard error that counts files and names one that takes long; only on a terminal.

    `running` maps the files being analysed to their start by `time.monotonic`; a thread polls it. Nothing is shown for
    short runs.
    """

    def __init__(self, total: int, running: Mapping[str, float], *, hidden: bool) -> None:
        self._total = total
        self._running = running
        self._hidden = hidden or not sys.stderr.isatty()
        self._done = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def __call__(self, done: int) -> None:
        """Count `done` more files."""
        self._done += done

    def __enter__(self) -> Progress:
        if not self._hidden:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._hidden:
            self._over.set()
            self._thread.join()

    def line(self, now: float, columns: int) -> str:
        """The text of the line at the time `now`, shorter than `columns`."""
        filled = 30 * self._done // max(1, self._total)
        said = f"[{'#' * filled}{'.' * (30 - filled)}] {self._done}/{self._total} files"
        since, filename = min(((since, name) for name, since in dict(self._running).items()), default=(now, ""))
        if now - since < _LONG_S:
            return said[: columns - 1]
        tail = f", {now - since:.0f} s"
        room = columns - 1 - len(said) - len("  ") - len(tail)
        shown = visible(filename)
        while shown and cells(shown) > room:
            shown = shown[1:]  # the end is most specific
        return f"{said}  {shown}{tail}" if shown else said[: columns - 1]

    def _draw(self) -> None:
        pause = _PATIENCE_S
        while not self._over.wait(pause):
            pause = _INTERVAL_S
            sys.stderr.write(_CLEAR + self.line(time.monotonic(), shutil.get_terminal_size((80, 24)).columns))
            sys.stderr.flush()
        if pause == _INTERVAL_S:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
