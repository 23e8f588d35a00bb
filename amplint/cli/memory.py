"""`amplint memory`: how much of a GPU's memory training takes."""

from __future__ import annotations

import re

import click

from amplint.cli.terminal import width
from amplint.reports.memory import of_states
from amplint.trace.memory.states import OPTIMIZERS, states

_SUFFIXES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
_COUNT = re.compile(r"(\d[\d_,]*\.?\d*(?:e\+?\d{1,2})?)\s*([kmbgt]?)", re.IGNORECASE)


class Count(click.ParamType[int]):
    """A number of parameters: `3.5e9`, `7B`, `125M`."""

    name = "count"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number. Fails where it is none."""
        read = _COUNT.fullmatch(str(value).strip())
        number = round(float(read[1].replace("_", "").replace(",", "")) * _SUFFIXES[read[2].upper()]) if read else 0
        if not 0 < number < 10**18:
            self.fail(f"{value!r} is no number of parameters; write 3.5e9, 7B or 125M", param, ctx)
        return number


@click.command()
@click.option("--parameters", type=Count(), required=True, help="How many: 3.5e9, 7B, 125M.")
@click.option("--optimizer", type=click.Choice(list(OPTIMIZERS)), default="adamw", show_default=True)
def memory(parameters: int, optimizer: str) -> None:
    """Say what a model keeps in memory from step to step, by the precision it is trained in."""
    click.echo(of_states(parameters, optimizer, states(parameters, optimizer), width()), nl=False)
