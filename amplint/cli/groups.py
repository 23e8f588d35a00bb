"""Help with options under headings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import click


class Grouped(click.Command):
    """Lists its options under the headings of `groups`, ungrouped ones last."""

    groups: ClassVar[Mapping[str, Sequence[str]]]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {
            parameter.name: record
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None
        }
        for heading, names in self.groups.items():
            with formatter.section(heading):
                formatter.write_dl([records.pop(name) for name in names])
        with formatter.section("Other options"):
            formatter.write_dl([*records.values()])
