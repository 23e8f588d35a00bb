"""A run over many repositories on a Ray cluster, or over data frames on Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplint.fleet.repository import Linted, Options, key_of, lint_repository
from amplint.fleet.store import FINDINGS, REPOSITORIES, Store, rows
from amplint.records import dataclass

if TYPE_CHECKING:
    import pandas as pd

_WAITING_PER_CPU = 2
_RETRIES = 2
_KINDS = {"findings": FINDINGS, "repositories": REPOSITORIES}


@dataclass(frozen=True)
class Progress:
    """The progress of a run: `known` counts repositories completed by an earlier run."""

    done: int
    known: int
    of: int
    last: str


def lint_fleet(
    repositories: Sequence[str],
    out: Path,
    options: Options | None = None,
    progress: Callable[[Progress], None] = lambda so_far: None,
) -> None:
    """Lint the folders `repositories` on a Ray cluster, by default this machine, into Parquet files in `out`.

    Results of an earlier run into `out` are reused if the repository, the options and amplint's version are the same. A
    repository whose worker dies is retried, then recorded as failed; no failure ends the run.
    """
    import ray

    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    chosen = options or Options()
    store = Store(out)
    task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_lint_unless_known)
    known = ray.put(store.done())
    limit = max(1, int(ray.cluster_resources().get("CPU", 1))) * _WAITING_PER_CPU  # type: ignore[no-untyped-call]
    waiting: dict[Any, str] = {}
    left = iter(repositories)
    finished = skipped = 0
    while True:
        for repository in left:
            waiting[task.remote(repository, chosen, known)] = repository
            if len(waiting) >= limit:
                break
        if not waiting:
            break
        (ready,), _ = ray.wait([*waiting], num_returns=1)
        repository = waiting.pop(ready)
        try:
            linted = ray.get(ready)
        except ray.exceptions.RayError as failure:
            linted = Linted(repository, "", "failed", reason=f"its worker was lost ({type(failure).__name__})")
        finished += 1
        skipped += linted is None
        if linted is not None:
            store.put(linted)
        progress(Progress(finished, skipped, len(repositories), repository))
    store.gather(repositories)


def lint_frames(
    frames: Iterable[pd.DataFrame], options: Options | None = None, kind: str = "findings"
) -> Iterator[pd.DataFrame]:
    """The rows of the table `kind` for the folders in each frame's column `repository`; for `mapInPandas`."""
    import pandas as pd

    for frame in frames:
        for repository in frame["repository"]:
            linted = lint_repository(str(repository), options or Options())
            yield pd.DataFrame(rows(linted)[kind], columns=_KINDS[kind].names)


def _lint_unless_known(repository: str, options: Options, known: set[tuple[str, str]]) -> Linted | None:
    """The result for a repository, None if an earlier run has it."""
    key = key_of(repository, options)
    return None if (repository, key) in known else lint_repository(repository, options, key)
