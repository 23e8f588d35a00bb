"""`amplint completion`: shell completion of commands, options and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_AMPLINT_COMPLETE"
"""The environment variable by which a shell asks for completions."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  echo 'eval "$(amplint completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(amplint completion zsh)"' >> ~/.zshrc
    fish:  amplint completion fish > ~/.config/fish/completions/amplint.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "amplint", VARIABLE).source())
