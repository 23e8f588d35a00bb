"""The `amplint` command: `amplint PATHS` is `amplint check PATHS`."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from amplint import __version__
from amplint.cli.default import ByDefault
from amplint.cli.failures import warn
from amplint.engine.deep import collect_rarely
from amplint.engine.diagnostics import describe
from amplint.hardening import INTERRUPTED

FAILED = 2


class _Commands(ByDefault):
    """Imports only the command that runs: importing all would add a tenth to the start of `check`."""

    default = "check"
    _names = ("check", "clean", "completion", "convert", "fleet", "mcp", "memory", "rule", "server", "trace")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._names:
            return None
        command: click.Command = getattr(import_module(f"amplint.cli.{cmd_name}"), cmd_name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="amplint", message="%(prog)s %(version)s")
def cli() -> None:
    """Find and repair mixed-precision (AMP) mistakes in PyTorch training scripts, without running them.

    `amplint [PATHS]` is short for `amplint check [PATHS]`, the current folder when no path is given;
    `amplint check -h` lists its options.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command with `arguments`, by default those of the process, and exit with its status."""
    collect_rarely()
    if sys.stdout is None or sys.stderr is None:  # closed by the parent process
        sys.exit(FAILED)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(arguments: list[str]) -> int:
    try:
        if instruction := os.environ.get("_AMPLINT_COMPLETE"):
            from click.shell_completion import shell_complete

            return shell_complete(cli, {}, "amplint", "_AMPLINT_COMPLETE", instruction)
        with cli.make_context("amplint", arguments) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return _flushed(done.exit_code)
    except click.ClickException as failure:
        failure.show()
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        return _silence_output()
    except Exception as failure:
        if os.environ.get("AMPLINT_TRACEBACK"):
            raise
        if isinstance(failure, OSError):  # disk full, folder removed, output closed
            warn(f"the run cannot go on: {failure}")
            return FAILED
        warn(f"amplint failed, please report it: {describe(failure)} (AMPLINT_TRACEBACK=1 shows where)")
        return FAILED
    return 0


def _flushed(status: int) -> int:
    try:
        with contextlib.suppress(AttributeError, ValueError):  # a traced script has closed or replaced it
            sys.stdout.flush()
    except BrokenPipeError:
        return _silence_output()
    return status


def _silence_output() -> int:
    """Redirect output to /dev/null, so that Python does not report the closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
