"""What commands do with the record of a run: show it, write it, and choose an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from amplint.cli.failures import Failure, load_rules
from amplint.cli.terminal import wants_colour, width
from amplint.findings import Finding, Severity
from amplint.reports.context import Context
from amplint.reports.full import full
from amplint.reports.trace import summary
from amplint.trace.record import Record

FOUND = 1

fail_on = click.option(
    "--fail-on",
    type=click.Choice([Severity.ERROR.label, Severity.WARNING.label]),
    help="Exit with status 1 when there is a finding at least this severe.",
)
quiet = click.option("-q", "--quiet", is_flag=True, help="Only the findings, no summary.")


def show(record: Record, found: Sequence[Finding], *, quiet: bool, err: bool) -> None:
    """Print the summary, unless `quiet`, and the findings, to standard error where `err` says so."""
    if not quiet:
        click.echo(summary(record, found, width()), err=err)
    context = Context(load_rules()[0].rules, width=width(), colour=wants_colour(sys.stderr if err else sys.stdout))
    shown = [replace(finding, filename=_relative(finding.filename)) for finding in found]
    click.echo(full(shown, context), err=err, nl=False, color=context.colour)


def status(found: Sequence[Finding], least: str | None) -> int:
    """The exit status where a finding that is at least as severe as `least` fails the run."""
    failed = any(finding.severity.label == least or finding.severity == Severity.ERROR for finding in found)
    return FOUND if least and failed else 0


def write(path: Path, text: str) -> None:
    """Write a report. Raises Failure."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise Failure(f"{path}: {failure.strerror or failure}") from None


def _relative(filename: str) -> str:
    """`filename` from the current folder on, where it lies in it."""
    inside = os.path.relpath(filename)
    return filename if inside.startswith(os.pardir) else inside
