"""Processes with what they and their children cost."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """What a run took (seconds), what it printed, and whether it was ended because it took too long."""

    wall: float
    cpu: float
    printed: str
    ended: bool


def run(command: Sequence[str], inside: Path, limit: float) -> Cost:
    """Run `command` in a folder, for at most `limit` seconds of wall time; it may keep bytecode."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    ended = False
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=inside,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
            start_new_session=True,
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            ended = True
        finally:
            wall = time.perf_counter() - start
            end_group(process)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        output.seek(0)
        printed = output.read().decode(errors="replace")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, printed, ended)


def adopt_orphans() -> None:
    """Make processes whose parents end children of this one, so that their CPU time is counted. Only Linux can."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of `process` and the processes it started, and wait for them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
