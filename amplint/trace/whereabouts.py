"""The current step and line of a run."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from amplint.trace.frames import calling_line
from amplint.trace.watching import Watch


class Whereabouts:
    """Describes the position of `watch` in the main thread, from any thread; `steps` is the expected number."""

    def __init__(self, watch: Watch, steps: int | None) -> None:
        self._watch = watch
        self._steps = steps
        self._step, self._began = 0, time.monotonic()

    def __call__(self) -> str:
        """A text such as `step 2 of 4, train.py:41, 12 s`."""
        step, now = self._watch.step, time.monotonic()
        if step != self._step:
            self._step, self._began = step, now
        filename, row = calling_line(sys._current_frames().get(threading.main_thread().ident or 0))
        parts = [f"step {step + 1}" + (f" of {self._steps}" if self._steps and step < self._steps else "")]
        if row:
            parts.append(f"{Path(filename).name}:{row}")
        return ", ".join([*parts, f"{now - self._began:.0f} s"])
