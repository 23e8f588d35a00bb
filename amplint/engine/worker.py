"""A worker process, which reads jobs from a pipe and writes analyses to another."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from typing import IO

from amplint.engine.analyse import Analysis, analyse
from amplint.engine.deep import collect_rarely
from amplint.engine.job import Job
from amplint.engine.modules import Modules

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_START = "import sys; sys.path[:] = {path}; from amplint.engine.worker import serve; serve()"
_READY = b"ready"
_LENGTH_BYTES = 8
_TIMES_LONGER, GRACE_S = 10, 60
_MOST_S = 1 << 30
_FLAGS = {
    "isolated": "-I",
    "ignore_environment": "-E",
    "no_user_site": "-s",
    "no_site": "-S",
    "dont_write_bytecode": "-B",
    "utf8_mode": "-Xutf8",
}
"""Attributes of `sys.flags` that a worker shares with its parent."""


class WorkerDied(Exception):
    """The process ended without an answer."""


class Worker:
    """A worker process as seen by its parent. Raises OSError if it cannot be started.

    It starts with this process's interpreter options and search path; the current folder, which `python -c` puts
    first, is removed before anything is imported (Python 3.13 imports something before, but `-P`, from 3.11 on, keeps
    the folder off). It ends when the pipe from its parent closes, and has a session of its own, so that an interrupt
    from the terminal reaches only its parent.
    """

    def __init__(self) -> None:
        if not sys.executable or getattr(sys, "frozen", False):
            raise OSError("there is no Python to start")
        flags = [flag for name, flag in _FLAGS.items() if getattr(sys.flags, name)]
        if sys.version_info >= (3, 11):
            flags.append("-P")
        self._process = subprocess.Popen(
            [sys.executable, *flags, "-c", _START.format(path=ascii(sys.path))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs, self._answers = self._process.stdin, self._process.stdout
        if _receive(self._answers) != _READY:
            self.end()
            raise OSError("the process did not start")

    def analyse(self, job: Job) -> Analysis | None:
        """The analysis of `job`, None if the worker cannot load one of its rules. Raises WorkerDied."""
        try:
            _send(self._jobs, pickle.dumps(job))
            answer = _receive(self._answers)
        except (OSError, ValueError) as failure:  # the pipe is broken, or closed by `end`
            raise WorkerDied from failure
        if answer is None:
            raise WorkerDied
        analysis: Analysis | None = pickle.loads(answer)
        return analysis

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()


def serve() -> None:
    """The worker's main loop."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a rule that reads standard input must not consume a job
    os.dup2(2, 1)  # a rule's output must not mix with the answers
    collect_rarely()
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs, waiting), daemon=True).start()
    modules = Modules()
    try:
        _send(answers, _READY)
        while True:
            _send(answers, pickle.dumps(_answer(waiting.get(), modules)))
    except OSError:
        os._exit(1)  # the parent has ended


def _answer(message: bytes, modules: Modules) -> Analysis | None:
    try:
        job: Job = pickle.loads(message)
    except Exception:  # a rule whose module cannot be imported here
        return None
    limit_time(job.seconds)
    return analyse(job, modules)


def limit_time(seconds: float) -> None:
    """Let the system end this process if work of `seconds` takes much longer.

    A search by a regular expression, or other compiled code, checks no limit and cannot be interrupted by a signal
    handler of Python, nor by another thread.
    """
    if resource is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        most = _MOST_S if hard == resource.RLIM_INFINITY else hard
        soft = int(min(time.process_time() + _TIMES_LONGER * seconds + GRACE_S, most))
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _listen(jobs: IO[bytes], waiting: queue.SimpleQueue[bytes]) -> None:
    """Forward the parent's messages, and exit when the parent ends."""
    while (message := _receive(jobs)) is not None:
        waiting.put(message)
    os._exit(1)


def _send(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    """The next message, None at the end of the pipe."""
    length = pipe.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        return None
    size = int.from_bytes(length, "big")
    message = pipe.read(size)
    return message if len(message) == size else None
