"""Parallel analysis of many files."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping

from amplint.engine.analyse import Analysis, analyse
from amplint.engine.diagnostics import RuleCrashed, diagnostic
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.running import track_running
from amplint.engine.worker import Worker, WorkerDied

_MOST_WORKERS = 16
_ATTEMPTS = 2
_PATIENCE_S = 1.0

_Answers = queue.SimpleQueue[tuple[int, Analysis | None]]


def analyse_in_processes(
    jobs: Mapping[int, Job], workers: int, running: dict[str, float], meanwhile: Callable[[], None]
) -> Iterator[tuple[int, Analysis]]:
    """Yield the analysis of each job under its key as it completes, from at most `workers` processes.

    `meanwhile` runs in this process once they are busy; `running` holds the names of the files being analysed.

    A file whose analysis kills its process twice (parser stack overflow, out of memory) gets a diagnostic. Jobs that no
    process can take, for instance where the system grants none, are analysed in this one.
    """
    waiting: queue.SimpleQueue[tuple[int, Job]] = queue.SimpleQueue()
    for item in sorted(jobs.items(), key=lambda item: -len(item[1].raw)):
        waiting.put(item)
    answers: _Answers = queue.SimpleQueue()
    teams = [_WorkerThread(waiting, answers, running) for _ in range(min(workers, len(jobs), _MOST_WORKERS))]
    modules = Modules()
    try:
        for team in teams:
            team.start()
        meanwhile()
        for _ in jobs:
            key, analysis = _next(answers)
            yield key, analysis or analyse(jobs[key], modules)
    finally:
        for team in teams:
            team.end()


def _next(answers: _Answers) -> tuple[int, Analysis | None]:
    while True:  # polling, since interrupts do not end a long wait on every system
        with contextlib.suppress(queue.Empty):
            return answers.get(timeout=_PATIENCE_S)


class _WorkerThread(threading.Thread):
    """A thread that passes the jobs in `waiting` to a worker process, and replaces the process if it dies."""

    def __init__(
        self, waiting: queue.SimpleQueue[tuple[int, Job]], answers: _Answers, running: dict[str, float]
    ) -> None:
        super().__init__(daemon=True)
        self._running = running
        self._waiting = waiting
        self._answers = answers
        self._worker: Worker | None = None
        self._ended = self._refused = False

    def run(self) -> None:
        """Answer every remaining job; with None if no worker can analyse it."""
        with contextlib.suppress(queue.Empty):
            while not self._ended:
                key, job = self._waiting.get_nowait()
                with track_running(self._running, job.filename):
                    analysis = self._analysis(job)
                self._answers.put((key, analysis))
        self.end()

    def end(self) -> None:
        """Kill the worker."""
        self._ended = True
        if self._worker is not None:
            self._worker.end()

    def _analysis(self, job: Job) -> Analysis | None:
        for _ in range(_ATTEMPTS):
            worker = self._worker or self._start_worker()
            if worker is None:
                return None
            try:
                return worker.analyse(job)
            except WorkerDied:
                worker.end()
                self._worker = None
            except Exception:  # a rule that cannot be pickled
                return None
        message = "The process that analysed this file was killed."
        return Analysis([diagnostic(RuleCrashed, job.filename, message)])

    def _start_worker(self) -> Worker | None:
        if not (self._refused or self._ended):
            try:
                self._worker = Worker()
            except OSError:
                self._refused = True
        return self._worker
