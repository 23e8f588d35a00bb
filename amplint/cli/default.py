"""A command group with a default subcommand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class ByDefault(click.Group):
    """Passes arguments that are neither a subcommand nor an option of the group to the subcommand `default`."""

    default = ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*self.list_commands(ctx), *self.get_help_option_names(ctx), *self._options(ctx)}
        if not args and ctx.resilient_parsing:
            return super().parse_args(ctx, args)  # during completion of the first word
        if not args or args[0] not in own:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions of the first word: subcommands, and arguments of the default."""
        from click.shell_completion import CompletionItem  # needed for completion only

        found = super().shell_complete(ctx, incomplete)
        command = self.get_command(ctx, self.default)
        if command is None:
            return found
        if not incomplete.startswith("-"):
            return [CompletionItem(incomplete, type="file"), *found]  # bash drops what precedes it
        known = {item.value for item in found}
        more = command.shell_complete(click.Context(command, info_name=self.default, parent=ctx), incomplete)
        return [*found, *(item for item in more if item.value not in known)]

    def _options(self, ctx: click.Context) -> list[str]:
        return [name for parameter in self.get_params(ctx) for name in parameter.opts]
