"""`amplint server`: a language server for editors."""

from __future__ import annotations

import importlib.util
import os
import sys

import click

from amplint.cli.failures import Failure, load_rules


@click.command()
def server() -> None:
    """Serve the Language Server Protocol on standard input and output, for editors.

    Findings appear while you type, also of texts that are not saved; fixes and explanations are there on demand. It is
    the editor that starts this command.

    Exit status: 0 when the editor has said goodbye; 1 when it has gone without; 2 when the server cannot start.
    """
    if importlib.util.find_spec("pygls") is None:
        raise Failure('amplint server needs pygls: pip install "amplint[server]"')
    registry, _ = load_rules([os.curdir])
    from amplint.server.features import server as made

    output, sys.stdout = sys.stdout.buffer, sys.stderr  # a plug-in's output must not mix with the protocol
    one = made(registry)
    one.start_io(sys.stdin.buffer, output)
    sys.stderr.flush()
    os._exit(0 if one.was_shut_down else 1)  # a running lint has no client any more
