"""`amplint trace merge`: the records of several ranks as one."""

from __future__ import annotations

from pathlib import Path

import click

from amplint.cli import traced
from amplint.cli.failures import Failure, warn
from amplint.cli.report import read
from amplint.trace.findings import findings_of_ranks
from amplint.trace.merge import Unmergeable, merged


@click.command()
@traced.output
@traced.html
@traced.fail_on
@traced.quiet
@click.argument("records", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.pass_context
def merge(
    ctx: click.Context,
    /,
    records: tuple[Path, ...],
    output: Path | None,
    html: Path | None,
    fail_on: str | None,
    quiet: bool,
) -> None:
    """Report what the ranks of one run did, and what they did differently.

    RECORDS are the files that `amplint trace --output trace.json` has written, one for each rank: trace.rank*.json.

    Exit status: 1 where --fail-on finds something; 2 when a file cannot be read, or they are not of one run.
    """
    ranks = [read(path) for path in records]
    try:
        whole = merged(ranks)
    except Unmergeable as failure:
        raise Failure(str(failure)) from None
    missing = sorted(set(range(whole.ranks)) - {record.rank for record in ranks})
    if missing:
        warn(f"{len(missing)} of {whole.ranks} ranks are missing: {', '.join(map(str, missing))}")
    found = findings_of_ranks(ranks, whole)
    traced.show(whole, found, quiet=quiet, err=False)
    if output is not None:
        traced.write(output, whole.to_json())
    if html is not None:
        traced.write_page(html, whole, found)
    ctx.exit(traced.status(found, fail_on))
