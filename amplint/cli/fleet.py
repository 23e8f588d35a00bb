"""`amplint fleet`: lints many repositories on a Ray cluster."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from amplint.cli.failures import Failure


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option("--list", "listed", type=click.File(), help="A file with a folder on each line; - is standard input.")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Where results go.")
@click.option("--below", is_flag=True, help="FOLDERS hold repositories: lint each folder in them.")
@click.option("--config", type=click.Path(exists=True, dir_okay=False), help="The settings for all repositories.")
@click.option("--own-settings", is_flag=True, help="Let each repository's own configuration count.")
@click.option("--seconds", default=60.0, show_default=True, help="How long a file may take.")
@click.option("--address", help="The Ray cluster, such as auto. By default one is started on this machine.")
@click.option("--cpus", type=click.IntRange(min=1), help="How many processor cores a cluster on this machine has.")
def fleet(
    folders: tuple[Path, ...],
    listed: Iterable[str] | None,
    out: Path,
    below: bool,
    config: str | None,
    own_settings: bool,
    seconds: float,
    address: str | None,
    cpus: int | None,
) -> None:
    """Lint the repositories in FOLDERS, one task each, into Parquet files, and print a report by rule and repository.

    A run that is repeated lints only what has changed, or failed. The repositories' own configuration does not count,
    unless --own-settings says so.

    Exit status: 0 when all repositories were linted, 1 when some were not or not wholly; 2 when the run cannot start.
    """
    for module in ("ray", "pyarrow"):
        if importlib.util.find_spec(module) is None:
            raise Failure(f'amplint fleet needs {module}: pip install "amplint[fleet]"')
    given = [*folders, *(Path(line.rstrip("\n")) for line in listed or () if line.strip())]
    tops = sorted(inner for folder in given for inner in folder.iterdir()) if below else given
    repositories = [os.path.abspath(top) for top in tops if top.is_dir()]
    if not repositories:
        raise Failure("there is no folder to lint")
    import ray

    from amplint.fleet.repository import Options
    from amplint.fleet.run import Progress, lint_fleet
    from amplint.fleet.store import report, unfinished

    def show(so_far: Progress) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{so_far.done} of {so_far.of}, {so_far.known} known", err=True, nl=False)

    ray.init(
        address,
        num_cpus=cpus if address is None else None,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    try:
        with contextlib.redirect_stdout(sys.stderr):  # Ray reports lost workers there
            lint_fleet(repositories, out, Options(config, own_settings, seconds), show)
    finally:
        ray.shutdown()
    click.echo(report(out), nl=False)
    raise click.exceptions.Exit(1 if unfinished(out) else 0)
