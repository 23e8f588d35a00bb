"""`amplint clean`: remove the cache."""

from __future__ import annotations

from pathlib import Path

import click

from amplint.cli.failures import Failure
from amplint.engine.store import remove, user_folder
from amplint.reports.text import visible


@click.command()
@click.option(
    "--cache-dir",
    envvar="AMPLINT_CACHE_DIR",
    show_envvar=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the cache.  [default: the user's cache folder]",
)
def clean(cache_dir: Path | None) -> None:
    """Remove the results of earlier runs, and of their folder nothing that amplint has not put there."""
    folder = user_folder() if cache_dir is None else cache_dir.absolute()
    try:
        size = remove(folder)
    except OSError as failure:
        raise Failure(f"{folder} cannot be removed: {failure.strerror or failure}") from None
    shown = visible(str(folder))
    click.echo(f"Removed {size / 1000:,.0f} kB from {shown}." if size else f"There is no cache in {shown}.")
