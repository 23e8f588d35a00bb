"""The linting run: read, screen, look up in the cache, analyse, suppress."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from amplint.engine.analyse import Analysis, analyse
from amplint.engine.cache import Cache
from amplint.engine.config import ConfigError, size_limit
from amplint.engine.deep import call_deep
from amplint.engine.diagnostics import ALWAYS_ON, SyntaxErrorFound, UnreadableFile, diagnostic, internal_error
from amplint.engine.discover import Target
from amplint.engine.elsewhere import drop_repeated, with_names
from amplint.engine.job import Job
from amplint.engine.modules import Modules, is_still_valid
from amplint.engine.modules.contents import Contents
from amplint.engine.patterns import ignored
from amplint.engine.projects import Projects
from amplint.engine.running import track_running
from amplint.engine.screen import follows, is_test, screen
from amplint.engine.suppress import suppress
from amplint.findings import Finding, Span
from amplint.notebooks.page import Page, Problem
from amplint.notebooks.reading import is_plain, page_of
from amplint.records import dataclass
from amplint.rule import Rule
from amplint.source.configs.names import is_config, named, reads_settings
from amplint.source.encoding import SourceError
from amplint.source.files import read, require_size

POOL_BYTES = 600_000
"""How much source must be left to analyse for worker processes to save more time than they cost."""


@dataclass(frozen=True)
class _Work:
    """A file with the rules that apply, the explicitly selected codes among them, and its key in the cache."""

    target: Target
    page: Page
    rules: tuple[type[Rule], ...]
    asked: frozenset[str]
    key: str


def opened(path: str, raw: bytes) -> Page:
    """The text to lint of the file at `path` with content `raw`. Raises SourceError for a malformed notebook.

    Content with NUL is neither Python nor a notebook and is not parsed.
    """
    plain = b"\0" in raw or is_config(path) or is_plain(path, raw)
    return Page(raw) if plain else call_deep(page_of, path, raw)


def cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Linter:
    """Lints files with the rules that `projects` select for them, and stores results in `cache`.

    `unsaved` maps absolute paths of imported files to an editor's unsaved content.
    """

    def __init__(self, projects: Projects, cache: Cache, unsaved: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self._projects = projects
        self._cache = cache
        self._handling: dict[frozenset[str], tuple[type[Rule], ...]] = {}
        self._modules = Modules(Contents(unsaved))
        self._named: dict[str, str] = {}
        self.running: dict[str, float] = {}
        """The files that are being analysed, by name, and when that began by `time.monotonic`."""

    def check(self, target: Target, raw: bytes) -> list[Finding]:
        """The findings in `raw`, the content of `target`, in the order of the text. Raises ConfigError.

        Never taken from earlier runs, since repairs are based on them.
        """
        try:
            require_size(len(raw), size_limit(target.path, target.settings.max_file_size), target.path)
            page = opened(target.path, raw)
        except OSError as failure:
            return [unreadable(target, failure)]
        except SourceError as failure:
            return [_not_a_notebook(target, failure)]
        return [page.placed(finding) for finding in self.check_page(target, page)]

    def check_named(self, targets: Sequence[Target]) -> list[tuple[Target, list[Finding]]]:
        """The findings in configuration files named by checked scripts, without those in `targets`.

        An unreadable one is skipped: its format may not be amplint's concern. Raises ConfigError.
        """
        known = {target.path for target in targets}
        found = []
        for path, filename in sorted(self._named.items()):
            settings = self._projects.of(Path(path).parent)
            excluded = self._projects.excludes(settings)
            if path not in known and not (excluded is not None and ignored([excluded], path)):
                found.append(Target(filename, path, settings))
        results = self.check_all(found, lambda done: None)
        return [
            (target, [finding for finding in findings if finding.code not in ALWAYS_ON])
            for target, findings in zip(found, results, strict=True)
        ]

    def forget(self, path: str) -> None:
        """Drop the cached content of the file at the absolute `path`, which has changed."""
        self._modules.forget(path)

    def check_page(self, target: Target, page: Page) -> list[Finding]:
        """As `check`, for an opened file, with positions in the page's text."""
        self._modules.forget(target.path)
        work = self._prepare(target, page)
        findings = self._known(work, stored=False)
        return self._finished(work, self._analysed(work) if findings is None else findings)

    def check_all(self, targets: Sequence[Target], progress: Callable[[int], None]) -> list[list[Finding]]:
        """The findings of each target, in order; an unreadable file has that as its finding.

        `progress` is called with the number of files finished since its last call. Raises ConfigError.
        """
        results: list[list[Finding]] = [[] for _ in targets]
        waiting: dict[int, Job] = {}
        done: dict[int, _Work] = {}
        for index, target in enumerate(targets):
            try:
                raw = read(target.path, size_limit(target.path, target.settings.max_file_size))
                work = self._prepare(target, opened(target.path, raw))
                findings = self._known(work)
                if findings is None:
                    waiting[index] = self._job(work)
            except ConfigError:
                raise
            except SourceError as failure:
                results[index] = [_not_a_notebook(target, failure)]
                continue
            except OSError as failure:
                results[index] = [unreadable(target, failure)]
                continue
            except Exception as failure:
                results[index] = [internal_error(target.filename, "Reading the file", failure)]
                continue
            done[index] = work
            results[index] = findings or []
        progress(len(targets) - len(waiting))
        for index, analysis in self._analyse_all(waiting):
            results[index] = self._kept(done[index], analysis)
            progress(1)
        once = drop_repeated(results, [target.path for target in targets])
        return [self._placed(done[index], found) if index in done else found for index, found in enumerate(once)]

    def _note_configs(self, target: Target, raw: bytes) -> None:
        """Record the configuration files that a script names."""
        folder = os.path.dirname(target.path)
        for name in named(raw):
            path = self._modules.folders.file(target.path, name)
            if path is not None and path not in self._named:
                shown = os.path.join(os.path.dirname(target.filename), os.path.relpath(path, folder))
                self._named[path] = os.path.normpath(shown)

    def _prepare(self, target: Target, page: Page) -> _Work:
        raw, settings = page.raw, target.settings
        codes = self._projects.active(settings, target.path)
        if codes not in self._handling:
            kinds = (self._projects.rules[code] for code in sorted(codes))
            self._handling[codes] = tuple(kind for kind in kinds if kind.handlers())
        rules = self._handling[codes]
        asked = frozenset() if is_test(target.filename) else self._projects.asked(settings)
        if is_config(target.path):
            rules = tuple(rule for rule in rules if rule.configs)
        else:
            self._note_configs(target, raw)
        folder = os.path.dirname(target.path)
        key = self._cache.key(raw, rules, folder, settings.torch_version, asked, settings.libraries)
        return _Work(target, page, rules, asked, key)

    def _job(self, work: _Work) -> Job:
        """The analysis job, with the rules whose screen is satisfied."""
        target, raw, rules, asked = work.target, work.page.raw, work.rules, work.asked
        others: tuple[type[Rule], ...] = ()
        if not is_config(target.path):
            rules = screen(work.rules, raw, asked) if b"\0" not in raw else ()
            if follows(raw) or reads_settings(raw):
                others = tuple(rule for rule in work.rules if rule not in rules)
        settings = target.settings
        return Job(
            target.filename, target.path, raw, rules, others, settings.torch_version, asked,
            seconds=settings.max_seconds, libraries=settings.libraries,
        )  # fmt: skip

    def _known(self, work: _Work, *, stored: bool = True) -> list[Finding] | None:
        holds = functools.partial(is_still_valid, self._modules)
        folder = os.path.dirname(work.target.path)
        return self._cache.get(work.key, work.target.filename, holds, folder, stored=stored)

    def _analysed(self, work: _Work) -> list[Finding]:
        return self._kept(work, self._run(self._job(work)))

    def _run(self, job: Job) -> Analysis:
        with track_running(self.running, job.filename):
            return analyse(job, self._modules)

    def _kept(self, work: _Work, analysis: Analysis) -> list[Finding]:
        self._cache.put(work.key, analysis)
        return analysis.findings

    def _placed(self, work: _Work, findings: list[Finding]) -> list[Finding]:
        return [work.page.placed(finding) for finding in self._finished(work, findings)]

    def _finished(self, work: _Work, findings: list[Finding]) -> list[Finding]:
        target = work.target
        if work.page.problems:
            problems = (_syntax_error(target, problem) for problem in work.page.problems)
            findings = sorted([*problems, *findings], key=lambda finding: (finding.span, finding.code))
        active = self._projects.active(target.settings, target.path)
        named = [with_names(finding) for finding in findings]
        try:
            kept = suppress(named, target.filename, work.page.raw, self._projects.rules, active)
        except Exception as failure:
            kept = [internal_error(target.filename, "Reading the suppressions", failure), *named]
        least = target.settings.min_severity
        return [finding for finding in kept if finding.severity >= least or finding.code in ALWAYS_ON]

    def _analyse_all(self, jobs: Mapping[int, Job]) -> Iterator[tuple[int, Analysis]]:
        heavy = {index: job for index, job in jobs.items() if job.rules or job.others}
        size = sum(len(job.raw) for job in heavy.values())
        if len(heavy) < 2 or size < POOL_BYTES or cores() < 2:
            for index, job in jobs.items():
                yield index, self._run(job)
            return
        from amplint.engine.pool import analyse_in_processes  # its imports are slow

        light: dict[int, Analysis] = {}

        def check_syntax() -> None:
            light.update({index: self._run(job) for index, job in jobs.items() if index not in heavy})

        yield from analyse_in_processes(heavy, cores(), self.running, meanwhile=check_syntax)
        yield from light.items()


def unreadable(target: Target, failure: OSError) -> Finding:
    """The diagnostic for a file that cannot be read."""
    limit = " (max-file-size)" if failure.errno == errno.EFBIG else ""
    return diagnostic(UnreadableFile, target.filename, f"cannot be read: {failure.strerror or failure}{limit}")


def _not_a_notebook(target: Target, failure: SourceError) -> Finding:
    span = Span(failure.position, failure.position)
    return diagnostic(SyntaxErrorFound, target.filename, failure.message, span=span)


def _syntax_error(target: Target, problem: Problem) -> Finding:
    end = replace(problem.position, column=problem.position.column + 1)
    return diagnostic(SyntaxErrorFound, target.filename, problem.message, span=Span(problem.position, end))
