"""Which step of a run is under way, at which line, and for how long."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from amplint.trace.frames import calling_line
from amplint.trace.watching import Watch


class Whereabouts:
    """Says it of what `watch` watches in the main thread, whichever thread asks; `steps` is how many there will be."""

    def __init__(self, watch: Watch, steps: int | None) -> None:
        self._watch = watch
        self._steps = steps
        self._step, self._began = 0, time.monotonic()

    def __call__(self) -> str:
        """Such as `step 2 of 4, train.py:41, 12 s`."""
        step, now = self._watch.step, time.monotonic()
        if step != self._step:
            self._step, self._began = step, now
        filename, row = calling_line(sys._current_frames().get(threading.main_thread().ident or 0))
        parts = [f"step {step + 1}" + (f" of {self._steps}" if self._steps and step < self._steps else "")]
        if row:
            parts.append(f"{Path(filename).name}:{row}")
        return ", ".join([*parts, f"{now - self._began:.0f} s"])
