"""Compares amplint with torchfix, ruff and fixit as whole processes, on one training script and on a corpus.

    python -m benchmarks.lint [--script FILE] [--corpus FOLDER] [--peers FOLDER]
    python -m benchmarks.lint --repositories FOLDER [--only TEXT] [--peers FOLDER]

Every tool starts cold, without its cache and without the configuration of the surrounding project, on a copy that holds
nothing but the Python files. All of them may keep their bytecode, as an installed tool does. The runs of the tools
alternate, so that a busy moment of the machine does not hit one of them alone.

With `--repositories` amplint is measured on public scripts and repositories, which lie in FOLDER/owner/name as a
checkout leaves them, and held against its targets; `benchmarks/public.py` lists them. What is missing is skipped.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import statistics
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import lint_public, processes
from benchmarks.linters import COMMANDS, installed
from benchmarks.script import training_script


@dataclass
class Tool:
    """A linter, what its runs took (seconds), and how many lines it printed in the last one."""

    name: str
    command: list[str] | None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    lines: int = 0
    timed_out: bool = False

    def run(self, target: Path, limit: float) -> None:
        """Lint `target` once; a run past `limit` seconds is ended, and the tool is not started again."""
        if self.command is None or self.timed_out:
            return
        cost = processes.run([*self.command, target.name], target.parent, limit)
        self.wall.append(cost.wall)
        self.cpu.append(cost.cpu)
        self.lines = cost.printed.count("\n")
        self.timed_out = cost.ended


def measure(console: Console, title: str, target: Path, peers: Path | None, runs: int, limit: float) -> None:
    """Run every tool `runs` times on `target` and print a table; its ratio compares the fastest run to amplint's."""
    compared = [Tool(name, installed(command, peers)) for name, command in COMMANDS.items()]
    for _ in range(runs):
        for tool in compared:
            with console.status(f"{title}: {tool.name}"):
                tool.run(target, limit)

    own = compared[0]
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    for heading in ("tool", "runs", "wall min", "wall median", "cpu min", "cpu median", "wall ratio", "lines printed"):
        table.add_column(heading, justify="left" if heading == "tool" else "right")
    for tool in compared:
        if not tool.wall:
            table.add_row(tool.name, "missing")
            continue
        more = "> " if tool.timed_out else ""
        seconds = [function(times) for times in (tool.wall, tool.cpu) for function in (min, statistics.median)]
        ratio = f"{more}{min(tool.wall) / min(own.wall):.2f} x" if own.wall else ""
        times = [f"{more}{value:.3f} s" for value in seconds]
        table.add_row(tool.name, str(len(tool.wall)), *times, ratio, str(tool.lines))
    console.print(table)


def copy_corpus(source: Path, to: Path) -> tuple[int, int]:
    """Copy the Python files below `source`; how many files and lines they are."""
    files = lines = 0
    for path in sorted(source.rglob("*.py")):
        copy = to / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        files += 1
        lines += copy.read_bytes().count(b"\n")
    return files, lines


def installed_torch() -> Path | None:
    """The folder of the installed torch package."""
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin).parent if spec and spec.origin else None


def main(arguments: Iterable[str] | None = None) -> None:
    """Parse the command line, measure, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", type=Path, help="training script to lint (default: a generated one)")
    parser.add_argument("--corpus", type=Path, default=installed_torch(), help="folder to lint (default: torch)")
    parser.add_argument("--peers", type=Path, help="folder that holds the other tools, searched before PATH")
    parser.add_argument("--runs", type=int, default=5, help="runs of each tool on the script")
    parser.add_argument("--corpus-runs", type=int, default=1, help="runs of each tool on the corpus; 0 leaves it out")
    parser.add_argument("--repositories", type=Path, help="folder of public repositories to be measured instead")
    parser.add_argument("--only", default="", help="of these, what has this in its name")
    parser.add_argument("--limit", type=float, help="seconds after which a run is ended (default: 1800, 300 of public)")
    options = parser.parse_args(list(arguments) if arguments is not None else None)

    processes.adopt_orphans()
    console = Console()
    console.width = max(console.width, 120)
    if options.repositories:
        folder, limit = options.repositories.resolve(), options.limit or 300.0
        lint_public.measure(lint_public.Measuring(console, folder, options.peers, options.runs, limit, options.only))
        return
    limit = options.limit or 1800.0
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch, "script", "train.py")
        script.parent.mkdir()
        script.write_bytes(options.script.read_bytes() if options.script else training_script().encode())
        lines = script.read_bytes().count(b"\n")
        title = f"one script, {lines:,} lines"
        measure(console, title, script, options.peers, options.runs, limit)

        if options.corpus and options.corpus_runs:
            corpus = Path(scratch, "corpus", options.corpus.name)
            files, lines = copy_corpus(options.corpus, corpus)
            title = f"{options.corpus.name}, {files:,} files, {lines:,} lines"
            measure(console, title, corpus, options.peers, options.corpus_runs, limit)


if __name__ == "__main__":
    main()
