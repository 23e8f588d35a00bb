"""`amplint trace`: run a script and watch what mixed precision does in it."""

from __future__ import annotations

import importlib.util
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
from amplint.trace.findings import findings
from amplint.trace.record import Record
from amplint.trace.window import Window

FOUND = 1


@click.command(
    context_settings={"max_content_width": 100, "ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option("--steps", default=3, show_default=True, type=click.IntRange(min=1), help="Optimizer steps to record.")
@click.option("--skip", default=1, show_default=True, type=click.IntRange(min=0), help="Steps to leave out first.")
@click.option("--every", default=1, show_default=True, type=click.IntRange(min=1), help="Record each N-th step.")
@click.option(
    "--then",
    type=click.Choice(["stop", "continue"]),
    default="stop",
    show_default=True,
    help="What the script does when the steps are recorded.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the record as JSON.")
@click.option(
    "--fail-on",
    type=click.Choice([Severity.ERROR.label, Severity.WARNING.label]),
    help="Exit with status 1 when there is a finding at least this severe.",
)
@click.option("-q", "--quiet", is_flag=True, help="Only the findings, no summary.")
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module, as for python -m.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def trace(
    ctx: click.Context,
    /,
    script: str,
    arguments: tuple[str, ...],
    steps: int,
    skip: int,
    every: int,
    then: str,
    output: Path | None,
    fail_on: str | None,
    quiet: bool,
    module: bool,
) -> None:
    """Run SCRIPT with its ARGUMENTS and report which dtype every line computes in, and what goes wrong.

    This runs the script, as `python SCRIPT ARGUMENTS` would. Its results stay the same; models that it compiles run
    eagerly. What is reported goes to standard error, so that the script's own output stays as it is.

    Exit status: that of the script; 1 where the script succeeds and --fail-on finds something; 2 when there is nothing
    to run.
    """
    if importlib.util.find_spec("torch") is None:
        raise Failure("amplint trace runs PyTorch, which is not installed: pip install amplint[trace]")
    from amplint.trace.run import NoScript, run

    try:
        ran = run(script, arguments, Window(steps, skip, every), module=module, stop=then == "stop")
    except NoScript as failure:
        raise Failure(str(failure)) from None
    sys.stdout.flush()
    found = findings(ran.record)
    _report(ran.record, found, quiet=quiet)
    if output is not None:
        _write(output, ran.record)
    failed = any(finding.severity.label == fail_on or finding.severity == Severity.ERROR for finding in found)
    ctx.exit(ran.status or (FOUND if fail_on and failed else 0))


def _report(record: Record, found: Sequence[Finding], *, quiet: bool) -> None:
    if not quiet:
        click.echo(summary(record), err=True)
    context = Context(load_rules()[0].rules, width=width(), colour=wants_colour(sys.stderr))
    shown = [replace(finding, filename=_relative(finding.filename)) for finding in found]
    click.echo(full(shown, context), err=True, nl=False, color=context.colour)


def _relative(filename: str) -> str:
    """`filename` from the current folder on, where it lies in it."""
    inside = os.path.relpath(filename)
    return filename if inside.startswith(os.pardir) else inside


def _write(path: Path, record: Record) -> None:
    try:
        path.write_text(record.to_json(), encoding="utf-8")
    except OSError as failure:
        raise Failure(f"{path}: {failure.strerror or failure}") from None
