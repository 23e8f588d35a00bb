"""`amplint memory`: the GPU memory that training needs."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from amplint.cli.failures import Failure
from amplint.cli.step_line import StepLine
from amplint.cli.terminal import width
from amplint.hardening import relax
from amplint.regex import regex
from amplint.reports.memory import of_peaks, of_states, refusal
from amplint.trace.gpus import GPUS
from amplint.trace.memory.derived import derived
from amplint.trace.memory.estimates import variants
from amplint.trace.memory.states import OPTIMIZERS, states

_SUFFIXES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
_COUNT = regex(r"(\d[\d_,]*\.?\d*(?:e\+?\d{1,2})?)\s*([kmbgt]?)", re.IGNORECASE)


class Count(click.ParamType[int]):
    """A number of parameters: `3.5e9`, `7B`, `125M`."""

    name = "count"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; reports a usage error if `value` is none."""
        read = _COUNT.fullmatch(str(value).strip())
        number = round(float(read[1].replace("_", "").replace(",", "")) * _SUFFIXES[read[2].upper()]) if read else 0
        if not 0 < number < 10**18:
            self.fail(f"{value!r} is no number of parameters; write 3.5e9, 7B or 125M", param, ctx)
        return number


accumulate = click.option(
    "--accumulate",
    default=4,
    show_default=True,
    type=click.IntRange(min=2),
    metavar="N",
    help="With a script: also for a step of N batches, each an N-th as large.",
)


ranks = click.option(
    "--ranks",
    default=8,
    show_default=True,
    type=click.IntRange(min=2),
    metavar="N",
    help="With a script: also for a model that is sharded over N GPUs.",
)


@click.command(
    context_settings={"max_content_width": 100, "ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option("--parameters", type=Count(), help="Instead of a script, how many parameters: 3.5e9, 7B, 125M.")
@click.option(
    "--optimizer", type=click.Choice(list(OPTIMIZERS)), default="adamw", show_default=True, help="With --parameters."
)
@click.option("--gpu", type=click.Choice(list(GPUS)), default="a100", show_default=True, help="What to pretend.")
@accumulate
@ranks
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module, as for python -m.")
@click.argument("script", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def memory(
    ctx: click.Context,
    /,
    parameters: int | None,
    optimizer: str,
    gpu: str,
    accumulate: int,
    ranks: int,
    output_format: str,
    module: bool,
    script: str | None,
    arguments: tuple[str, ...],
) -> None:
    """Say what training takes of a GPU's memory: that of SCRIPT at its peak, or of a model with so many --parameters.

    A script is run several times, with fake tensors, which needs neither a GPU nor its memory: as it is, and as it
    would be in float32, under AMP, with accumulation and with activation checkpointing. Other optimizers, weights in
    bfloat16, offloading and sharding are worked out from that.

    Exit status: 0; 2 when there is nothing to run, or the script cannot be run as it is.
    """
    if (script is None) == (parameters is None):
        raise click.UsageError("Give either a script or --parameters.", ctx)
    if script is not None:
        ctx.exit(show_peaks(script, arguments, gpu, accumulate, output_format, module=module, ranks=ranks))
    assert parameters is not None
    found = states(parameters, optimizer)
    if output_format == "json":
        click.echo(json.dumps([asdict(each) | {"total": each.total} for each in found], indent=2))
    else:
        click.echo(of_states(parameters, optimizer, found, width()), nl=False)


def show_peaks(
    script: str,
    arguments: Sequence[str],
    gpu: str,
    accumulate: int,
    output_format: str = "text",
    *,
    module: bool,
    ranks: int = 8,
) -> int:
    """Print the peaks of a script's variants; return the exit status. Raises Failure and NoSuchOption."""
    relax()
    if importlib.util.find_spec("torch") is None:
        raise Failure("estimates of a script's memory need PyTorch, which is not installed: pip install amplint[trace]")
    if script.startswith("-"):
        raise click.NoSuchOption(script)
    if not module and not Path(script).is_file():
        raise Failure(f"{script}: no such file")
    from amplint.trace.memory.estimating import estimates

    wanted = variants(accumulate)
    done: list[str] = []
    with StepLine(lambda: f"{len(done)} of {len(wanted)} runs are done", hidden=False):
        found = estimates(script, arguments, wanted, gpu, module=module, done=done.append)
    if not found[0].refused:
        more = [*derived(found, accumulate, ranks)]
        known = {each.variant for each in more}
        found = [each for each in found if each.variant not in known] + more
    if output_format == "json":
        click.echo(json.dumps([asdict(each) | {"total": each.total} for each in found], indent=2))
    elif found[0].refused:
        raise Failure(f"{script}: {refusal(found[0])}")
    else:
        click.echo(of_peaks(found, GPUS[gpu], width()), nl=False)
    return Failure.exit_code if found[0].refused else 0
