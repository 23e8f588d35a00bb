"""Failures that end a run, or leave it incomplete: exit status 2."""

from __future__ import annotations

from collections.abc import Iterable

import click

from amplint.engine.registry import load_registry
from amplint.hardening import distrust
from amplint.reports.text import one_line
from amplint.rule import Registry


class Failure(click.ClickException):
    """The run cannot continue; the message is one line for the user."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def load_rules(linted: Iterable[str] = ()) -> tuple[Registry, bool]:
    """All rules, and whether every plug-in loaded; failures are named on standard error.

    No code is imported from the `linted` paths.
    """
    distrust(list(linted))
    registry = load_registry()
    for broken in registry.broken:
        warn(f"the plug-in {broken.name} could not be loaded, its rules are missing: {broken.why}")
    return registry, not registry.broken


def warn(message: str) -> None:
    """Print one line on standard error."""
    click.echo(f"Warning: {one_line(message)}", err=True)
