"""One run of `amplint check`, from options to exit status."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

import click

from amplint.cli.failures import Failure, load_rules
from amplint.cli.options import Options
from amplint.cli.settings import describe_files, describe_settings
from amplint.cli.summary import fixes, summary, would_fix
from amplint.cli.terminal import Progress, wants_colour, width
from amplint.engine.cache import Cache
from amplint.engine.config import ConfigError
from amplint.engine.diagnostics import ALWAYS_ON, NOTICES, RuleCrashed
from amplint.engine.discover import Found, Target, discover
from amplint.engine.linting import Linted, lint_files, lint_text, text_target
from amplint.engine.projects import Projects
from amplint.engine.run import Linter
from amplint.engine.select import Rules
from amplint.findings import Applicability, Finding
from amplint.records import dataclass
from amplint.reports.context import Context, Sources
from amplint.reports.diff import unified
from amplint.reports.formats import FORMATS
from amplint.reports.statistics import statistics, statistics_json
from amplint.reports.text import visible

NOTHING, FINDINGS, FAILED = 0, 1, 2


@dataclass
class _Outcome:
    """The outcome of a run.

    `given` maps the name of standard input to its content, `diff` is the output of `--diff`, `codes` are the rules
    whose findings were fixed, by file, and `remarks` say what was left out.
    """

    findings: list[Finding] = field(default_factory=list)
    files: int = 0
    fixed: int = 0
    diff: str = ""
    given: dict[str, bytes] = field(default_factory=dict)
    incomplete: bool = False
    remarks: list[str] = field(default_factory=list)
    codes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    safe: set[Applicability] = field(default_factory=lambda: {Applicability.SAFE})


def run(options: Options) -> int:
    """Execute `options` and return the exit status. Raises Failure."""
    registry, complete = load_rules(options.paths or (".",))
    try:
        projects = options.projects(registry.rules)
        if options.show_settings:
            click.echo(describe_settings(options.paths, projects), nl=False)
            return NOTHING if complete else FAILED
        if options.show_files:
            return _show_files(options, projects) if complete else FAILED
        marked = _trace_marker(options.trace) if options.trace is not None else None
        outcome = _lint_stdin(options, projects) if options.from_stdin else _lint_files(options, projects)
    except ConfigError as failure:
        raise Failure(str(failure)) from None
    if options.diff:
        click.echo(outcome.diff, nl=False)
        outcome.findings = [finding for finding in outcome.findings if finding.code in ALWAYS_ON]
    if marked is not None:
        outcome.findings = marked(outcome.findings, outcome.given)
    _report(outcome, options, registry.rules)
    if outcome.incomplete or not complete or any(finding.code == RuleCrashed.code for finding in outcome.findings):
        return FAILED
    counting = [finding for finding in outcome.findings if finding.code not in NOTICES]
    return FINDINGS if (counting or outcome.diff) and not options.exit_zero else NOTHING


def _trace_marker(path: Path) -> Callable[[list[Finding], dict[str, bytes]], list[Finding]]:
    """A function that marks findings by the record at `path`. Raises Failure."""
    from amplint.cli.marking import marked  # imports all reports of the tracer
    from amplint.cli.report import read

    record = read(path)
    return lambda findings, given: marked(findings, record, given)


def _show_files(options: Options, projects: Projects) -> int:
    found = _discovered(options, projects)
    click.echo(describe_files(target.filename for target in found.targets), nl=False)
    return FAILED if found.missing or found.problems else NOTHING


def _discovered(options: Options, projects: Projects) -> Found:
    found = discover(options.paths or (".",), projects)
    for path in found.missing:
        click.echo(f"Error: {visible(path)}: no such file or folder", err=True)
    return found


def _baseline_filter(options: Options, projects: Projects) -> Callable[[_Outcome, Sequence[Target]], None]:
    """A function that drops findings in the baseline or in unchanged lines. Raises Failure."""
    if options.baseline is None and options.diff_base is None:
        return lambda outcome, targets: None
    from amplint.cli.adopting import Adoption  # imports git, notebooks and baselines

    given: dict[str, bytes] = {}
    adoption = Adoption(options, given)

    def keep(outcome: _Outcome, targets: Sequence[Target]) -> None:
        given.update(outcome.given)
        outcome.findings = adoption.kept(outcome.findings, targets, projects)
        outcome.remarks += adoption.remarks

    return keep


def _add_ignores(outcome: _Outcome, targets: Sequence[Target], linter: Linter) -> None:
    """Suppress the remaining findings by comments."""
    from amplint.adoption.ignoring import ignore_in_file  # imports what repairs need

    by_file: dict[str, list[Finding]] = {}
    for finding in outcome.findings:
        by_file.setdefault(finding.filename, []).append(finding)
    silenced = 0
    for target in targets:
        if target.filename in by_file:
            ignored = ignore_in_file(target, by_file[target.filename], linter)
            by_file[target.filename] = ignored.left
            silenced += ignored.silenced
    outcome.findings = [finding for findings in by_file.values() for finding in findings]
    outcome.remarks.append(f"{silenced} finding{'' if silenced == 1 else 's'} silenced by comments.")


def _lint_files(options: Options, projects: Projects) -> _Outcome:
    keep = _baseline_filter(options, projects)
    found = _discovered(options, projects)
    outcome = _Outcome([*found.problems], len(found.targets), incomplete=bool(found.missing))
    with contextlib.closing(Cache(options.cache_folder() if found.targets else None)) as cache:
        linter = Linter(projects, cache)
        with Progress(len(found.targets), linter.running, hidden=options.quiet) as progress:
            repairs = options.fix or options.diff
            results = lint_files(found.targets, linter, progress, fix=repairs, write=options.fix, named=True)
        targets = []
        for linted in results:
            _take(linted, options, outcome)
            targets.append(linted.target)
        outcome.files = len(targets)
        keep(outcome, targets)
        if options.add_ignore:
            _add_ignores(outcome, targets, linter)
    return outcome


def _lint_stdin(options: Options, projects: Projects) -> _Outcome:
    keep = _baseline_filter(options, projects)
    target = text_target(options.stdin_filename or "<stdin>", projects)
    raw = read_stdin(target.settings.max_file_size)
    outcome = _Outcome(files=1, given={target.filename: raw})
    linted = lint_text(raw, target, Linter(projects, Cache(None)), fix=options.fix or options.diff)
    _take(linted, options, outcome)
    if linted.repaired is not None:
        outcome.given[target.filename] = linted.repaired.after
    keep(outcome, [target])
    if options.fix:
        sys.stdout.buffer.write(outcome.given[target.filename])
    return outcome


def read_stdin(most: int) -> bytes:
    """The content of standard input, at most so many bytes. Raises Failure."""
    if sys.stdin is None:
        raise Failure("standard input is closed")
    raw = sys.stdin.buffer.read(most + 1)
    if len(raw) > most:
        raise Failure(f"standard input is larger than {most:,} bytes (max-file-size)")
    return raw


def _take(linted: Linted, options: Options, outcome: _Outcome) -> None:
    """Add a file's result to `outcome`."""
    outcome.findings += linted.findings
    if linted.target.settings.unsafe_fixes:
        outcome.safe.add(Applicability.UNSAFE)
    repaired = linted.repaired
    if repaired is None:
        return
    outcome.fixed += repaired.fixed
    if repaired.codes:
        outcome.codes[linted.target.filename] = repaired.codes
    if options.diff:
        name = linted.target.filename
        outcome.diff += unified(name, repaired.before, repaired.after, escape=sys.stdout.isatty())


def _report(outcome: _Outcome, options: Options, rules: Rules) -> None:
    stream = sys.stderr if (options.from_stdin and options.fix) or options.diff else sys.stdout
    colour = wants_colour(stream) and options.output_file is None
    context = Context(rules, Sources(outcome.given), width(), colour)
    if options.diff and not outcome.findings:
        text = ""
    elif options.statistics:
        text = (statistics_json if options.output_format == "json" else statistics)(outcome.findings)
    else:
        text = FORMATS[options.output_format](outcome.findings, context)
    if options.output_file is not None:
        try:
            options.output_file.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as failure:
            raise Failure(f"{options.output_file} cannot be written: {failure.strerror}") from None
    else:
        click.echo(text, file=stream, nl=False, color=colour)
    if options.show_fixes:
        click.echo(fixes(outcome.codes, rules), err=True, nl=False)
    if not options.quiet:
        sys.stdout.flush()
        click.echo("\n".join([*outcome.remarks, _summary(outcome, options)]), err=True)


def _summary(outcome: _Outcome, options: Options) -> str:
    if options.diff:
        return would_fix(outcome.fixed)
    partly = bool(outcome.remarks)
    return summary(
        outcome.findings, outcome.files, fixed=outcome.fixed, fixing=options.fix, safe=outcome.safe, partly=partly
    )
