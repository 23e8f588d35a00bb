"""`amplint convert`: rewrite whole training loops, or show how they would be rewritten."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import field
from typing import Any

import click

from amplint.cli.failures import Failure, load_rules, warn
from amplint.cli.session import read_stdin
from amplint.cli.terminal import Progress
from amplint.codemods.conversion import Converted, Remark, Wish
from amplint.codemods.registry import DEVICES, DTYPES, GOALS, LEAST_WINDOW, SOURCES, conflict, find
from amplint.engine.config import ConfigError
from amplint.engine.discover import discover
from amplint.engine.linting import text_target
from amplint.engine.projects import Projects
from amplint.records import dataclass
from amplint.reports.diff import unified
from amplint.reports.places import file_label
from amplint.reports.text import one_line, visible

DONE, LEFT, FAILED = 0, 1, 2


@dataclass
class _Tally:
    """The outcome of a run: changed files, refusals, and places that a person should check.

    The lines about these are printed after the changes `shown`; `refused` counts files.
    """

    changed: int = 0
    refused: int = 0
    failed: bool = False
    done: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)


@click.command(context_settings={"max_content_width": 100})
@click.argument("paths", nargs=-1, type=click.Path(), required=True)
@click.option("--to", type=click.Choice(list(GOALS)), help="What the code is to become.")
@click.option("--from", "source", type=click.Choice(list(SOURCES)), help="What the code is written for now.")
@click.option(
    "--dtype",
    type=click.Choice(list(DTYPES)),
    default="float16",
    show_default=True,
    help="What --to amp computes in; bfloat16 needs no gradient scaler.",
)
@click.option(
    "--device",
    type=click.Choice(list(DEVICES)),
    default="cuda",
    show_default=True,
    help="What --to amp is for; auto asks the torch.device that the code has.",
)
@click.option(
    "--accumulate",
    type=click.IntRange(min=LEAST_WINDOW),
    metavar="N",
    help="Step once for N batches, by itself or after the other conversion.",
)
@click.option(
    "--add-flag",
    is_flag=True,
    help="Add options to the script: --amp/--no-amp with --to amp, --accumulation-steps with --accumulate.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="CODE",
    help="Convert in spite of what this rule finds in the result; can be given several times.",
)
@click.option("--diff", is_flag=True, help="Show the changes; this is so anyway where nothing is written.")
@click.option("--show-refused", is_flag=True, help="Show the changes that were refused for what they lint with.")
@click.option("--write", is_flag=True, help="Replace the files.")
@click.option("--stdin-filename", metavar="NAME", help="What to call standard input, which the path - stands for.")
@click.option("-q", "--quiet", is_flag=True, help="No summary, no progress bar.")
@click.pass_context
def convert(
    ctx: click.Context,
    /,
    paths: tuple[str, ...],
    diff: bool,
    show_refused: bool,
    write: bool,
    stdin_filename: str | None,
    quiet: bool,
    **wishes: Any,
) -> None:
    """Rewrite training code: whole files are converted with certainty or left as they are.

    Without --write the changes are shown as a diff. What was done, refused or should be checked by a person goes to
    standard error, with lines and reasons. A file that is refused stays untouched, byte by byte. Files that are given
    together know each other as they become. Standard input, the path -, goes to standard output as it becomes.

    \b
    --to amp         float32 training becomes mixed precision: autocast regions and a gradient scaler
    --to bfloat16    what computes in float16 does so in bfloat16: regions, scalers, casts and settings
    --to float8      linear layers of training in bfloat16 multiply in float8, by torchao
    --from apex      apex.amp of NVIDIA becomes torch.autocast and torch.amp.GradScaler
    --from cuda-amp  the deprecated torch.cuda.amp and torch.cpu.amp become torch.amp
    --from float16   autocast in float16, with its GradScaler, becomes autocast in bfloat16
    --from mmcv      configs and decorators of mmcv 1.x become those of mmengine and regions of PyTorch
    --accumulate N   loops that step once for every batch accumulate the gradients of N batches

    Exit status: 0 nothing is left to convert; 1 something is: a file was refused, or changes were shown and not
    written; 2 the run failed: wrong usage, a path that does not exist, a file that cannot be read or written.
    """
    wish = Wish(**wishes)
    try:
        find(wish)
    except ValueError:
        raise click.UsageError(
            f"Say --to {'|'.join(GOALS)}, --from {'|'.join(SOURCES)} or --accumulate N.", ctx
        ) from None
    why = conflict(wish, "--") or (_about_stdin(paths, write=write) if "-" in paths else None)
    if why is not None:
        raise click.UsageError(f"{why}.", ctx)
    if "-" in paths:
        tally = _convert_stdin(stdin_filename or "<stdin>", wish, _Output(diff, show_refused))
    else:
        output = _Output(diff or not write, show_refused)
        tally = _convert_all(paths, wish, output, write=write, quiet=quiet)
    for text in tally.shown:
        click.echo(text, nl=False)
    sys.stdout.flush()
    for line in (*(() if quiet else tally.done), *tally.checks, *tally.reasons):
        click.echo(one_line(line), err=True)
    if not quiet:
        click.echo(_summary(tally, written=write or "-" in paths), err=True)
    left = tally.refused or (tally.changed and not write and "-" not in paths)
    ctx.exit(FAILED if tally.failed else LEFT if left else DONE)


@dataclass(frozen=True)
class _Output:
    """Which diffs to show: of changes, of `refused` conversions."""

    changes: bool
    refused: bool

    def shown(self, converted: Converted) -> str:
        """What is asked for."""
        after = converted.after if converted.after != converted.before else converted.tried
        if after and (self.changes if after is converted.after else self.refused):
            return unified(converted.filename, converted.before, after, escape=sys.stdout.isatty())
        return ""


def _about_stdin(paths: tuple[str, ...], *, write: bool) -> str | None:
    """The conflict of the options with standard input, None if there is none."""
    if paths != ("-",):
        return "- (standard input) cannot be combined with other paths"
    return "standard input is no file to be written" if write else None


def _projects(paths: tuple[str, ...], wish: Wish) -> Projects:
    registry, _ = load_rules(paths)
    for code in wish.allow:
        if registry.find(code) is None:
            raise click.UsageError(f"There is no rule {code}.")
    return Projects(registry.rules)


def _convert_stdin(name: str, wish: Wish, output: _Output) -> _Tally:
    from amplint.codemods.files import convert_text  # many modules

    tally = _Tally()
    try:
        target = text_target(name, _projects((), wish))
    except ConfigError as failure:
        raise Failure(str(failure)) from None
    converted = convert_text(target.filename, target.path, wish, read_stdin(target.settings.max_file_size))
    _take(converted, tally, output)
    if not output.changes:
        sys.stdout.buffer.write(converted.after)
    return tally


def _convert_all(paths: tuple[str, ...], wish: Wish, output: _Output, *, write: bool, quiet: bool) -> _Tally:
    from amplint.codemods.files import convert_files  # many modules

    try:
        found = discover(paths, _projects(paths, wish))
    except ConfigError as failure:
        raise Failure(str(failure)) from None
    for path in found.missing:
        click.echo(f"Error: {visible(path)}: no such file or folder", err=True)
    for problem in found.problems:
        warn(f"{problem.filename}: {problem.message}")
    tally = _Tally(failed=bool(found.missing or found.problems))
    running: dict[str, float] = {}
    with Progress(len(found.targets), running, hidden=quiet) as progress:
        for converted in convert_files(found.targets, wish, write=write, running=running):
            _take(converted, tally, output)
            progress(1)
    return tally


def _take(converted: Converted, tally: _Tally, output: _Output) -> None:
    """Add a file's outcome to `tally`."""
    if converted.failure:
        tally.reasons.append(f"Warning: {converted.filename}: {converted.failure}")
        tally.failed = True
        return
    name = converted.filename
    tally.reasons += [f"{_place(name, remark)}: refused: {remark.text}" for remark in converted.reasons]
    tally.checks += [f"{_place(name, remark)}: check: {remark.text}" for remark in converted.checks]
    tally.refused += bool(converted.reasons)
    tally.shown.append(output.shown(converted))
    for other in converted.others:
        _take(other, tally, output)
    if converted.after == converted.before:
        return
    tally.changed += 1
    counted = Counter(remark.text for remark in converted.done)
    done = ", ".join(text if number == 1 else f"{text} ({number})" for text, number in counted.items())
    tally.done.append(f"{name}: {done}")


def _place(filename: str, remark: Remark) -> str:
    return f"{file_label(filename, remark.cell)}:{remark.row}"


def _summary(tally: _Tally, *, written: bool) -> str:
    parts = [f"{_files(tally.changed)} {'converted' if written else 'would be converted'}"] if tally.changed else []
    parts += [f"{_files(tally.refused)} refused"] if tally.refused else []
    parts += [f"{_number(len(tally.checks), 'place')} to check"] if tally.checks else []
    return (", ".join(parts) or "Nothing to convert") + "."


def _files(number: int) -> str:
    return _number(number, "file")


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
