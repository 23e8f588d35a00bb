"""`amplint check`: lint files, repair them or show the repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import click

from amplint.cli.groups import Grouped
from amplint.cli.options import Options
from amplint.cli.session import run
from amplint.findings import Severity
from amplint.reports.formats import FORMATS

_SELECTOR = "CODES"


class _Check(Grouped):
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "What is linted, and how": (
            "select", "ignore", "extend_select", "min_severity", "config", "isolated", "stdin_filename", "watch",
        ),
        "Repairs": ("fix", "unsafe_fixes", "diff", "show_fixes"),
        "Old code": ("baseline", "update_baseline", "shrink_baseline", "diff_base", "add_ignore"),
        "Reports": (
            "output_format", "output_file", "statistics", "trace", "quiet", "exit_zero", "show_settings", "show_files",
        ),
    }  # fmt: skip


@click.command(cls=_Check, context_settings={"max_content_width": 100})
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--fix", is_flag=True, help="Repair what has a safe fix, and report the rest.")
@click.option(
    "--unsafe-fixes/--no-unsafe-fixes",
    default=None,
    help="With --fix and --diff: also use fixes that may change results.",
)
@click.option("--diff", is_flag=True, help="Show what --fix would change and write nothing.")
@click.option("--select", multiple=True, metavar=_SELECTOR, help="Only these rules: codes, prefixes, names or ALL.")
@click.option("--ignore", multiple=True, metavar=_SELECTOR, help="Not these rules.")
@click.option("--extend-select", multiple=True, metavar=_SELECTOR, help="These rules besides the selected ones.")
@click.option(
    "--min-severity",
    type=click.Choice([level.label for level in Severity]),
    help="Only rules that are at least this severe.",
)
@click.option(
    "--output-format", type=click.Choice(list(FORMATS)), default="full", show_default=True, help="How to report."
)
@click.option("-o", "--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Report to a file.")
@click.option("--statistics", is_flag=True, help="Count findings by rule instead of listing them.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Mark each finding as confirmed, contradicted or not exercised by this record of a run.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with status 0 also when there are findings.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write results of earlier runs.")
@click.option(
    "--cache-dir",
    envvar="AMPLINT_CACHE_DIR",
    show_envvar=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to keep results of earlier runs.  [default: the user's cache folder]",
)
@click.option("--stdin-filename", metavar="NAME", help="What to call standard input, which the path - stands for.")
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Use this file's settings."
)
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option(
    "--baseline",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Leave out the findings that this file holds.",
)
@click.option("--update-baseline", is_flag=True, help="Record all findings in the baseline, and drop what is gone.")
@click.option("--shrink-baseline", is_flag=True, help="Drop what is gone from the baseline, and record nothing new.")
@click.option(
    "--diff-base",
    metavar="REV",
    help="Only findings in lines changed since this branch left REV, or with a step in such a line; uses git.",
)
@click.option("--add-ignore", is_flag=True, help="Write a comment at each finding that silences it.")
@click.option("--watch", is_flag=True, help='Lint again when files change; pip install "amplint[watch]".')
@click.option("--show-fixes", is_flag=True, help="With --fix and --diff: list the rules whose findings are fixed.")
@click.option("--show-files", is_flag=True, help="Print the files that would be linted and exit.")
@click.option("--show-settings", is_flag=True, help="Print the settings for the first path and exit.")
@click.option("-q", "--quiet", is_flag=True, help="Only the findings: no summary, no progress bar.")
@click.pass_context
def check(ctx: click.Context, /, **values: Any) -> None:
    """Lint Python files, notebooks and folders, the current folder by default.

    Settings come from [tool.amplint] in pyproject.toml or from amplint.toml, whichever is nearest above a file.

    Exit status: 0 nothing found (or --exit-zero); 1 findings, among them files that cannot be read or parsed, or
    changes that --diff shows; 2 the run failed or is incomplete: wrong usage or configuration, a path that does not
    exist, a rule or plug-in that crashed.
    """
    options = Options(**values)
    conflict = options.conflicts()
    if conflict is not None:
        raise click.UsageError(conflict, ctx)
    if options.watch:
        from amplint.cli.watch import watch

        watch(options.paths or (".",), lambda: run(options))
    ctx.exit(run(options))
