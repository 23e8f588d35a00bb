"""Analysis of many files on all processor cores."""

from __future__ import annotations

import functools
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from amplint.engine.analyse import Analysis, Job, analyse
from amplint.engine.deep import collect_rarely
from amplint.engine.diagnostics import RuleCrashed, diagnostic
from amplint.engine.modules import Modules

_FORK_SERVER = "forkserver"
_PRELOADED = ["amplint.engine.dispatch", "amplint.semantics.interpreter"]
_MOST_WORKERS = 16


def analyse_in_processes(
    jobs: Mapping[int, Job], workers: int, meanwhile: Callable[[], None]
) -> Iterator[tuple[int, Analysis]]:
    """The analysis of each job as they come in, under its key, from as many processes as `workers`.

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
            yield key, _killed(waiting.pop(key))
        workers, meanwhile = 1, _nothing
    for key, job in waiting.items():
        yield key, _work(job)


def _executor(workers: int) -> ProcessPoolExecutor:
    # Not a plain fork: by then this process has threads.
    method = _FORK_SERVER if _FORK_SERVER in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    context.set_forkserver_preload(_PRELOADED)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare)


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # interrupts are the parent's
    collect_rarely()


@functools.cache
def _modules() -> Modules:
    """What this process has read of the tree; it ends with the run."""
    return Modules()


def _work(job: Job) -> Analysis:
    return analyse(job, _modules())


def _killed(job: Job) -> Analysis:
    message = "The process that analysed this file was killed."
    return Analysis([diagnostic(RuleCrashed, job.filename, message)])


def _nothing() -> None:
    return None
