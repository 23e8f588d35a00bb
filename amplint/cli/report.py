"""`amplint trace report`: the reports of an earlier recorded run."""

from __future__ import annotations

from pathlib import Path

import click

from amplint.cli import traced
from amplint.cli.failures import Failure
from amplint.source import files
from amplint.trace.findings import findings
from amplint.trace.record import Record, UnreadableRecord


@click.command()
@traced.html
@traced.fail_on
@traced.quiet
@click.option(
    "--tensorboard",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the series as an event file of TensorBoard's into this folder.",
)
@click.argument("record", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_context
def report(
    ctx: click.Context,
    /,
    record: Path,
    html: Path | None,
    fail_on: str | None,
    quiet: bool,
    tensorboard: Path | None,
) -> None:
    """Report what RECORD holds, a file that `amplint trace --output` has written. Nothing is run.

    Exit status: 1 where --fail-on finds something; 2 when RECORD cannot be read.
    """
    seen = read(record)
    found = findings(seen)
    traced.show(seen, found, quiet=quiet, err=False)
    if html is not None:
        traced.write_page(html, seen, found)
    if tensorboard is not None:
        _write_events(tensorboard, seen)
    ctx.exit(traced.status(found, fail_on))


def _write_events(folder: Path, record: Record) -> None:
    """Write TensorBoard event files. Raises Failure."""
    try:
        from amplint.trace.event_files import write
    except ImportError:
        raise Failure('--tensorboard needs PyTorch and TensorBoard: pip install "amplint[tensorboard]"') from None
    try:
        write(record, folder)
    except OSError as failure:
        raise Failure(f"{folder}: {failure.strerror or failure}") from None


def read(path: Path) -> Record:
    """The record in the file at `path`. Raises Failure."""
    try:
        return Record.from_json(files.read(path).decode())
    except OSError as failure:
        raise Failure(f"{path}: {failure.strerror or failure}") from None
    except (UnreadableRecord, UnicodeDecodeError) as failure:
        raise Failure(f"{path}: {failure}") from None
