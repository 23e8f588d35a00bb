"""`amplint trace`: run a script and watch what mixed precision does in it."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path

import click
from click.core import ParameterSource

from amplint.cli import traced
from amplint.cli.default import ByDefault
from amplint.cli.diff import diff
from amplint.cli.ending import Ending
from amplint.cli.failures import Failure, warn
from amplint.cli.memory import accumulate, show_peaks
from amplint.cli.merge import merge
from amplint.cli.report import report
from amplint.cli.step_line import StepLine
from amplint.hardening import relax
from amplint.trace.data import NUMERICS
from amplint.trace.gpus import GPUS
from amplint.trace.window import Window

_OF_MEMORY = {"memory", "dry_run", "gpu", "accumulate", "module", "script", "arguments"}
"""The parameters that estimates of memory know."""


class _RunByDefault(ByDefault):
    default = "run"


@click.group(cls=_RunByDefault)
def trace() -> None:
    """Watch a run: which dtype every line computes in, and what goes wrong.

    `amplint trace train.py` is short for `amplint trace run train.py`; `amplint trace run -h` lists its options.
    """


@trace.command(
    context_settings={"max_content_width": 100, "ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="Optimizer steps to record.  [default: 3; with --every as many as there are]",
)
@click.option(
    "--skip",
    type=click.IntRange(min=0),
    help="Steps to leave out first.  [default: 1; 0 with --compare-float32]",
)
@click.option("--every", type=click.IntRange(min=1), help="Record one step of N, and curves over the whole training.")
@click.option(
    "--then",
    type=click.Choice(["stop", "continue"]),
    default="stop",
    show_default=True,
    help="What the script does when the steps are recorded.",
)
@click.option(
    "--numerics",
    type=click.Choice(NUMERICS),
    default="sample",
    show_default=True,
    help="How much of the numbers to look at: only dtypes, inf and NaN and samples, or all.",
)
@click.option("--compare-float32", is_flag=True, help="Compute each step in float32 as well, and say where they part.")
@click.option("--dry-run", is_flag=True, help="Run a script for CUDA without a GPU, as CUDA's autocast would.")
@click.option("--gpu", type=click.Choice(list(GPUS)), default="a100", show_default=True, help="What to pretend.")
@traced.follow
@click.option("--max-batch", type=click.IntRange(min=1), help="Samples of each batch that data loaders give at most.")
@click.option("--image-size", type=click.IntRange(min=1), help="Pixels that images of data loaders have at most.")
@click.option("--memory", is_flag=True, help="Say only what the script takes of a GPU's memory.")
@accumulate
@traced.output
@traced.html
@traced.fail_on
@traced.quiet
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module, as for python -m.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context,
    /,
    script: str,
    arguments: tuple[str, ...],
    steps: int | None,
    skip: int | None,
    every: int | None,
    then: str,
    numerics: str,
    compare_float32: bool,
    dry_run: bool,
    gpu: str,
    follow: tuple[str, ...],
    max_batch: int | None,
    image_size: int | None,
    memory: bool,
    accumulate: int,
    output: Path | None,
    html: Path | None,
    fail_on: str | None,
    quiet: bool,
    module: bool,
) -> None:
    """Run SCRIPT with its ARGUMENTS and report which dtype every line computes in, and what goes wrong.

    This runs the script, as `python SCRIPT ARGUMENTS` would. Its results stay the same; models that it compiles run
    eagerly. What is reported goes to standard error, so that the script's own output stays as it is.

    Under torchrun each rank writes a file of its own: trace.rank0.json, which `amplint trace merge` reads.

    Exit status: that of the script; 1 where the script succeeds and --fail-on finds something; 2 when there is nothing
    to run.
    """
    given = {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if memory:
        if not given <= _OF_MEMORY:
            raise click.UsageError("--memory goes with --gpu, --accumulate and -m only.", ctx)
        ctx.exit(show_peaks(script, arguments, gpu, accumulate, module=module))
    if "accumulate" in given:
        raise click.UsageError("--accumulate goes with --memory only.", ctx)
    relax()
    if importlib.util.find_spec("torch") is None:
        raise Failure("amplint trace runs PyTorch, which is not installed: pip install amplint[trace]")
    from amplint.trace import run as runs
    from amplint.trace.shrink import shrunk
    from amplint.trace.watching import Watch
    from amplint.trace.whereabouts import Whereabouts

    if skip is None:
        skip = 0 if compare_float32 else 1  # corrupted weights of the first step are compared there only
    window = Window(3 if steps is None and every is None else steps, skip, every or 1)
    watch = Watch(window, stop=then == "stop", numerics=numerics, compare_float32=compare_float32, follow=follow)
    line = StepLine(Whereabouts(watch, window.end), hidden=quiet or watch.record.rank != 0)
    with Ending(watch, output, html, line, quiet=quiet, fail_on=fail_on) as ending:
        try:
            with line, shrunk(max_batch, image_size, warn, watch.paused):
                status = runs.run(script, arguments, watch, module=module, gpu=GPUS[gpu] if dry_run else None)
        except runs.NoScript as failure:
            raise Failure(str(failure)) from None
        with contextlib.suppress(AttributeError, ValueError):  # the script has closed or replaced it
            sys.stdout.flush()
        found = ending.report(watch.record)
    ctx.exit(status or found)


trace.add_command(diff)
trace.add_command(merge)
trace.add_command(report)
