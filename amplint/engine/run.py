"""From discovered files to findings: read, screen, look up, analyse, suppress."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from amplint.engine.analyse import analyse
from amplint.engine.cache import Cache
from amplint.engine.diagnostics import UnreadableFile, diagnostic
from amplint.engine.discover import Target
from amplint.engine.projects import Projects
from amplint.engine.screen import screen
from amplint.engine.suppress import suppress
from amplint.findings import Finding
from amplint.rule import Rule

POOL_BYTES = 600_000
"""How much source must be left to analyse for worker processes to save more time than they cost."""


@dataclass(frozen=True)
class _Work:
    """A file with the rules that may fire in it, and its key in the cache."""

    target: Target
    raw: bytes
    rules: tuple[type[Rule], ...]
    key: str


def cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Linter:
    """Lints files with the rules that `projects` select for them, remembering results in `cache`."""

    def __init__(self, projects: Projects, cache: Cache) -> None:
        self._projects = projects
        self._cache = cache
        self._handling: dict[frozenset[str], tuple[type[Rule], ...]] = {}

    def check(self, target: Target, raw: bytes) -> list[Finding]:
        """The findings in `raw`, the content of `target`, in the order of the text. Raises ConfigError."""
        work = self._prepare(target, raw)
        findings = self._cache.get(work.key, target.filename)
        return self._finished(work, self._analysed(work) if findings is None else findings)

    def check_all(self, targets: Sequence[Target], progress: Callable[[int], None]) -> list[list[Finding]]:
        """The findings of each target, in order; a file that cannot be read has that as its finding.

        `progress` is told how many files have been finished since it was told last. Raises ConfigError.
        """
        results: list[list[Finding]] = [[] for _ in targets]
        waiting: dict[int, _Work] = {}
        for index, target in enumerate(targets):
            try:
                with open(target.path, "rb") as file:
                    work = self._prepare(target, file.read())
            except OSError as failure:
                message = f"cannot be read: {failure.strerror or failure}"
                results[index] = [diagnostic(UnreadableFile, target.filename, message)]
                continue
            findings = self._cache.get(work.key, target.filename)
            if findings is None:
                waiting[index] = work
            else:
                results[index] = self._finished(work, findings)
        progress(len(targets) - len(waiting))
        for index, findings in self._analyse_all(waiting):
            results[index] = self._finished(waiting[index], findings)
            progress(1)
        return results

    def _prepare(self, target: Target, raw: bytes) -> _Work:
        codes = self._projects.active(target.settings, target.path)
        if codes not in self._handling:
            kinds = (self._projects.rules[code] for code in sorted(codes))
            self._handling[codes] = tuple(kind for kind in kinds if kind.handlers())
        rules = screen(self._handling[codes], raw)
        return _Work(target, raw, rules, self._cache.key(raw, rules))

    def _analysed(self, work: _Work) -> list[Finding]:
        return self._kept(work, analyse(work.target.filename, work.raw, work.rules))

    def _kept(self, work: _Work, findings: list[Finding]) -> list[Finding]:
        self._cache.put(work.key, findings)
        return findings

    def _finished(self, work: _Work, findings: list[Finding]) -> list[Finding]:
        target = work.target
        active = self._projects.active(target.settings, target.path)
        return suppress(findings, target.filename, work.raw, self._projects.rules, active)

    def _analyse_all(self, waiting: Mapping[int, _Work]) -> Iterator[tuple[int, list[Finding]]]:
        heavy = {index: work for index, work in waiting.items() if work.rules}
        size = sum(len(work.raw) for work in heavy.values())
        if len(heavy) < 2 or size < POOL_BYTES or cores() < 2:
            for index, work in waiting.items():
                yield index, self._analysed(work)
            return
        from amplint.engine.pool import Job, analyse_in_processes  # these imports are slow

        light: dict[int, list[Finding]] = {}

        def check_syntax() -> None:
            light.update({index: self._analysed(work) for index, work in waiting.items() if not work.rules})

        jobs = {index: Job(work.target.filename, work.raw, work.rules) for index, work in heavy.items()}
        for index, findings in analyse_in_processes(jobs, cores(), meanwhile=check_syntax):
            yield index, self._kept(waiting[index], findings)
        yield from light.items()
