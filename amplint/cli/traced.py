"""Output of a run's record: show it, write it, choose the exit status."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from amplint.cli.failures import Failure, load_rules
from amplint.cli.terminal import wants_colour, width
from amplint.findings import Finding, Severity
from amplint.reports.context import Context, Sources, content
from amplint.reports.full import full
from amplint.reports.ranks import unequal_lines_text
from amplint.reports.text import display_path
from amplint.reports.trace import summary
from amplint.trace.packages import refusal
from amplint.trace.record import Record

FOUND = 1
_PAGE_LIBRARIES = ("jinja2", "matplotlib", "pygments")

fail_on = click.option(
    "--fail-on",
    type=click.Choice([Severity.ERROR.label, Severity.WARNING.label]),
    help="Exit with status 1 when there is a finding at least this severe.",
)
output = click.option(
    "--output", type=click.Path(dir_okay=False, resolve_path=True, path_type=Path), help="Write the record as JSON."
)


def _can_write_pages(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    missing = [name for name in _PAGE_LIBRARIES if path is not None and importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(f'--html needs {", ".join(missing)}: pip install "amplint[report]"')
    return path


html = click.option(
    "--html",
    type=click.Path(dir_okay=False, resolve_path=True, path_type=Path),
    callback=_can_write_pages,
    help="Write a page with source, plots and tables that works offline.",
)


def _can_follow(ctx: click.Context, parameter: click.Parameter, packages: tuple[str, ...]) -> tuple[str, ...]:
    for refused in filter(None, map(refusal, packages)):
        raise click.BadParameter(refused, ctx, parameter)
    return packages


follow = click.option(
    "--follow",
    multiple=True,
    metavar="PACKAGE",
    callback=_can_follow,
    help="Count the lines of an installed package as yours. Can be given several times.",
)
quiet = click.option("-q", "--quiet", is_flag=True, help="Only the findings, no summary.")


def show(record: Record, found: Sequence[Finding], *, quiet: bool, err: bool) -> None:
    """Print the summary, unless `quiet`, and the findings; to standard error if `err`."""
    if not quiet:
        click.echo(summary(record, found, width()) + unequal_lines_text(record), err=err)
    names = {
        name for finding in found for name in (finding.filename, *(note.filename for note in finding.notes)) if name
    }
    sources = Sources({display_path(name): text for name in names if (text := content(name)) is not None})
    colour = wants_colour(sys.stderr if err else sys.stdout)
    context = Context(load_rules()[0].rules, sources, width=width(), colour=colour)
    shown = [_from_here(finding) for finding in found]
    click.echo(full(shown, context), err=err, nl=False, color=context.colour)


def _from_here(finding: Finding) -> Finding:
    notes = [replace(note, filename=display_path(note.filename)) for note in finding.notes]
    return replace(finding, filename=display_path(finding.filename), notes=tuple(notes))


def status(found: Sequence[Finding], least: str | None) -> int:
    """The exit status; a finding at least as severe as `least` fails the run."""
    failed = any(finding.severity.label == least or finding.severity == Severity.ERROR for finding in found)
    return FOUND if least and failed else 0


def write(path: Path, text: str) -> None:
    """Write a report. Raises Failure."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise Failure(f"{path}: {failure.strerror or failure}") from None


def write_page(path: Path, record: Record, found: Sequence[Finding]) -> None:
    """Write the page of a run. Raises Failure."""
    from amplint.reports.page.document import page

    write(path, page(record, found))
