"""Analysis of many files on all processor cores."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from amplint.engine.analyse import analyse
from amplint.engine.diagnostics import RuleCrashed, diagnostic
from amplint.findings import Finding
from amplint.rule import Rule

_FORK_SERVER = "forkserver"
_PRELOADED = ["amplint.engine.dispatch", "amplint.semantics.interpreter"]
_MOST_WORKERS = 16


@dataclass(frozen=True)
class Job:
    """A file and the rules that may fire in it."""

    filename: str
    raw: bytes
    rules: Sequence[type[Rule]]


def analyse_in_processes(
    jobs: Mapping[int, Job], workers: int, meanwhile: Callable[[], None]
) -> Iterator[tuple[int, list[Finding]]]:
    """The findings of each job as they come in, under its key, from as many processes as `workers`.

    `meanwhile` runs here once they are busy.

    A file whose analysis kills its process (a parser out of stack, the system out of memory) gets a diagnostic, the
    others are analysed again. Where the system grants no processes, everything happens in this one.
    """
    waiting = dict(sorted(jobs.items(), key=lambda item: -len(item[1].raw)))
    workers = min(workers, len(jobs), _MOST_WORKERS)
    while waiting:
        try:
            pool = _executor(workers)
            futures = {pool.submit(_work, job): key for key, job in waiting.items()}
        except (OSError, ImportError, NotImplementedError):
            meanwhile()
            break
        meanwhile()
        try:
            for future in as_completed(futures):
                failure = future.exception()
                if not isinstance(failure, BrokenProcessPool):
                    key = futures[future]
                    job = waiting.pop(key)
                    yield key, _work(job) if failure else future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        if waiting and workers == 1:  # a single process takes the jobs in order, so it died of the first that is left
            key = next(iter(waiting))
            yield key, [_killed(waiting.pop(key))]
        workers, meanwhile = 1, _nothing
    for key, job in waiting.items():
        yield key, _work(job)


def _executor(workers: int) -> ProcessPoolExecutor:
    # Not a plain fork: by then this process has threads.
    method = _FORK_SERVER if _FORK_SERVER in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    context.set_forkserver_preload(_PRELOADED)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_interrupts_to_the_parent)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(job: Job) -> list[Finding]:
    return analyse(job.filename, job.raw, job.rules)


def _killed(job: Job) -> Finding:
    return diagnostic(RuleCrashed, job.filename, "The process that analysed this file was killed.")


def _nothing() -> None:
    return None
