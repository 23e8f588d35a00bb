"""`amplint trace diff`: what is different in a second run."""

from __future__ import annotations

from pathlib import Path

import click

from amplint.cli.report import read
from amplint.cli.terminal import width
from amplint.reports.difference import Run, difference
from amplint.trace.findings import findings


@click.command()
@click.argument("before", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("after", type=click.Path(dir_okay=False, path_type=Path))
def diff(before: Path, after: Path) -> None:
    """Say what is different in AFTER: dtypes by line, findings, skipped steps, where inf and NaN come from.

    BEFORE and AFTER are files that `amplint trace --output` has written, of one script before and after a fix. Where
    the script has changed, its lines are known by the calls that they make.

    Exit status: 0; 2 when a file cannot be read.
    """
    old, new = read(before), read(after)
    click.echo(difference(Run(old, findings(old)), Run(new, findings(new)), width()), nl=False)
