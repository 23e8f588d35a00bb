"""`amplint check --watch`: lint again whenever files change."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NoReturn

import click

from amplint.cli.failures import Failure
from amplint.engine.discover import NEVER_ENTERED, SUFFIXES

_TICK_MS = 200
_ALSO = ("amplint.toml", "pyproject.toml", ".gitignore")


def watch(paths: Sequence[str], lint: Callable[[], object]) -> NoReturn:
    """Call `lint` now and whenever a file that it may read below `paths` changes, until an interrupt.

    Raises Failure if files cannot be watched.
    """
    try:
        import watchfiles
    except ImportError:
        raise Failure('--watch needs watchfiles: pip install "amplint[watch]"') from None
    for path in paths:
        if not os.path.exists(path):
            raise Failure(f"{path}: no such file or folder")
    folders = [os.path.abspath(path) for path in paths if os.path.isdir(path)]
    files = {os.path.abspath(path) for path in paths if not os.path.isdir(path)}

    def matters(_: watchfiles.Change, changed: str) -> bool:
        name = os.path.basename(changed)
        if changed in files:
            return True
        inside = (
            os.path.relpath(changed, folder) for folder in folders if changed.startswith(os.path.join(folder, ""))
        )
        if any(NEVER_ENTERED.isdisjoint(path.split(os.sep)[:-1]) for path in inside):
            return name.endswith(SUFFIXES) or name in _ALSO
        return name in _ALSO and any(os.path.dirname(file) == os.path.dirname(changed) for file in files)

    watched = {*folders, *(os.path.dirname(file) for file in files)}
    begun = False
    try:
        for changes in watchfiles.watch(
            *sorted(watched),
            watch_filter=matters,
            recursive=bool(folders),
            rust_timeout=_TICK_MS,
            yield_on_timeout=True,  # watching starts before the first lint
            raise_interrupt=True,
        ):
            if changes or not begun:
                begun = True
                _once(lint)
    except OSError as failure:
        raise Failure(f"the files cannot be watched: {failure}") from None
    raise Failure("the files cannot be watched any longer")


def _once(lint: Callable[[], object]) -> None:
    click.clear()
    try:
        lint()
    except click.ClickException as failure:
        failure.show()
    click.echo("Watching for changes; Ctrl-C ends.", err=True)
