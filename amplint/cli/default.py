"""A command with subcommands, one of which may be left out."""

from __future__ import annotations

import click


class ByDefault(click.Group):
    """Takes whatever is neither a subcommand nor an option of its own as the arguments of its `default`."""

    default = ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*self.list_commands(ctx), *self.get_help_option_names(ctx), *self._options(ctx)}
        if not args or args[0] not in own:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def _options(self, ctx: click.Context) -> list[str]:
        return [name for parameter in self.get_params(ctx) for name in parameter.opts]
