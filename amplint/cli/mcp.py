"""`amplint mcp`: a server of the Model Context Protocol for agents."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import click

from amplint.cli.failures import Failure, load_rules


@click.command()
@click.argument("root", default=".", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path))
@click.option("--allow-run", is_flag=True, help="Also offer trace and memory, which RUN the scripts they are given.")
def mcp(root: Path, allow_run: bool) -> None:
    """Serve the Model Context Protocol on standard input and output, for agents: check, explain, fix and convert.

    Tools open and write files in ROOT only, by default the current folder. They run none of them, unless --allow-run
    adds the tools trace and memory, which do.

    Exit status: 0 when the client has gone; 2 when the server cannot start.
    """
    if importlib.util.find_spec("mcp") is None:
        raise Failure('amplint mcp needs the MCP SDK: pip install "amplint[mcp]"')
    registry, _ = load_rules([str(root)])
    os.chdir(root)
    from amplint.agents.server import server
    from amplint.agents.workspace import Workspace

    server(Workspace(root, registry), allow_run=allow_run).run("stdio")
