"""The files being analysed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


@contextlib.contextmanager
def track_running(running: dict[str, float], filename: str) -> Iterator[None]:
    """Hold `filename` in `running`, with the start by `time.monotonic`, for the duration of the context."""
    running[filename] = time.monotonic()
    try:
        yield
    finally:
        running.pop(filename, None)
