"""A status line on standard error with the script's current step, kept apart from the script's output."""

from __future__ import annotations

import builtins
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

_PATIENCE_S, _INTERVAL_S = 1.0, 0.5
_CLEAR = "\r\x1b[2K"


class StepLine:
    """Shows the text of `describe` twice a second while active as a context manager; nothing if `hidden`.

    The line is cleared before the script writes to a terminal, and redrawn once the script's own line is complete and
    no input is expected. A thread draws it; output of forked processes is not tracked.
    """

    def __init__(self, describe: Callable[[], str], *, hidden: bool) -> None:
        self._describe = describe
        self._hidden = hidden or not sys.stderr.isatty()
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._terminal = sys.stderr
        self._write: Callable[[str], Any] = self._terminal.write
        self._patched: list[TextIO] = []
        self._input = builtins.input
        self._shown, self._partial = False, False

    def __enter__(self) -> StepLine:
        if not self._hidden:
            for stream in {id(stream): stream for stream in (sys.stdout, sys.stderr)}.values():
                if stream.isatty():
                    self._patch(stream)
            builtins.input = self._asked
            threading.Thread(target=self._draw, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Clear the line for good."""
        self._over.set()
        with self._lock:
            self._clear()
            while self._patched:
                vars(self._patched.pop()).pop("write", None)
            builtins.input = self._input

    def _patch(self, stream: TextIO) -> None:
        write = stream.write

        def apart(text: str) -> int:
            if os.getpid() != self._process:
                return write(text)
            with self._lock:
                self._clear()
                if text:
                    self._partial = not text.endswith("\n")
                return write(text)

        stream.write = apart  # type: ignore[method-assign]
        self._patched.append(stream)

    def _asked(self, *prompt: object) -> str:
        with self._lock:
            self._clear()
            self._partial = True
        try:
            return self._input(*prompt)
        finally:
            self._partial = False

    def _clear(self) -> None:
        if self._shown:
            self._shown = False
            self._write(_CLEAR)
            self._terminal.flush()

    def _draw(self) -> None:
        time.sleep(_PATIENCE_S)
        while not self._over.wait(_INTERVAL_S):
            text = self._describe()[: shutil.get_terminal_size().columns - 1]
            with self._lock:
                if not self._partial and not self._over.is_set():
                    self._shown = True
                    self._write(f"{_CLEAR}{text}\r")
                    self._terminal.flush()
