"""Which files are being analysed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


@contextlib.contextmanager
def noted(running: dict[str, float], filename: str) -> Iterator[None]:
    """Keep `filename` in `running`, with the time by `time.monotonic` at which that began."""
    running[filename] = time.monotonic()
    try:
        yield
    finally:
        running.pop(filename, None)
