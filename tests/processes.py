"""Looking at the processes of this machine, through /proc."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def workers(pid: int) -> list[int]:
    """The processes that the threads of process `pid` have started."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in threads for child in children.read_text(encoding="utf-8").split()]


def lives(pid: int) -> bool:
    """Whether process `pid` still runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Whether `condition` has come true after at most so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
