"""Measured amounts, and the targets that hold them against what is wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich import box
from rich.table import Table


@dataclass(frozen=True)
class Amount:
    """A number, or what it is at least where the run was ended."""

    value: float
    at_least: bool = False

    def over(self, other: Amount | None) -> Amount | None:
        """This as a multiple of `other`, None where that cannot be said."""
        if other is None or other.at_least or not other.value:
            return None
        return Amount(self.value / other.value, self.at_least)


@dataclass(frozen=True)
class Target:
    """What is wanted of an amount: to be at most `most`."""

    what: str
    amount: Amount | None
    most: float

    @property
    def met(self) -> str:
        """Whether it is, as a word."""
        if self.amount is None:
            return "not measured"
        if self.amount.value > self.most:
            return "no"
        return "unknown" if self.amount.at_least else "yes"


def shown(amount: Amount | None, unit: str = "", digits: int = 2) -> str:
    """An amount as a table prints it."""
    if amount is None:
        return "-"
    return f"{'> ' if amount.at_least else ''}{amount.value:,.{digits}f}{unit}"


def columns(title: str, *headings: str) -> Table:
    """A table whose first column holds words and whose others hold numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left")
    return table


def verdicts(targets: Iterable[Target]) -> Table:
    """Every target with what was measured and whether it is met."""
    table = columns("targets", "target", "measured", "at most", "met")
    for target in targets:
        table.add_row(target.what, shown(target.amount), f"{target.most:,.2f}", target.met)
    return table
