"""Compares amplint with torchfix, ruff and fixit as whole processes, on one training script and on a corpus.

    python -m benchmarks.lint [--script FILE] [--corpus FOLDER] [--peers FOLDER]

Every tool starts cold, without its cache and without the configuration of the surrounding project, on a copy that holds
nothing but the Python files. All of them may keep their bytecode, as an installed tool does. The runs of the tools
alternate, so that a busy moment of the machine does not hit one of them alone.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.script import training_script


@dataclass
class Tool:
    """A linter, what its runs took (seconds), and how many lines it printed in the last one."""

    name: str
    arguments: tuple[str, ...]
    program: str | None = None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    lines: int = 0
    timed_out: bool = False

    def run(self, target: Path, limit: float) -> None:
        """Lint `target` once; a run past `limit` seconds is ended, and the tool is not started again."""
        if self.program is None or self.timed_out:
            return
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [self.program, *self.arguments, target.name],
                cwd=target.parent,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
                start_new_session=True,
            )
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                self.timed_out = True
            finally:
                self.wall.append(time.perf_counter() - start)
                end_group(process)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            output.seek(0)
            self.lines = sum(1 for _ in output)
        self.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def adopt_orphans() -> None:
    """Make processes whose parents end children of this one, so that their CPU time is counted. Only Linux can."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of `process` and the processes it started, and wait for them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def tools(peers: Path | None) -> list[Tool]:
    """The linters to compare; one that is not installed has no program."""
    found = [
        Tool("amplint", ("check", "--no-cache", "--output-format", "concise")),
        Tool("torchfix", ("--select", "ALL")),
        Tool("ruff", ("check", "--no-cache", "--isolated", "--output-format", "concise")),
        Tool("fixit", ("lint",)),
    ]
    folders = [str(folder) for folder in (Path(sys.executable).parent, peers) if folder]
    search = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
    for tool in found:
        tool.program = shutil.which(tool.name, path=search)
    return found


def measure(console: Console, title: str, target: Path, peers: Path | None, runs: int, limit: float) -> None:
    """Run every tool `runs` times on `target` and print a table; its ratio compares the fastest run to amplint's."""
    compared = tools(peers)
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
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a run is ended")
    options = parser.parse_args(list(arguments) if arguments is not None else None)

    adopt_orphans()
    console = Console()
    console.width = max(console.width, 110)
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch, "script", "train.py")
        script.parent.mkdir()
        script.write_bytes(options.script.read_bytes() if options.script else training_script().encode())
        lines = script.read_bytes().count(b"\n")
        title = f"one script, {lines:,} lines"
        measure(console, title, script, options.peers, options.runs, options.limit)

        if options.corpus and options.corpus_runs:
            corpus = Path(scratch, "corpus", options.corpus.name)
            files, lines = copy_corpus(options.corpus, corpus)
            title = f"{options.corpus.name}, {files:,} files, {lines:,} lines"
            measure(console, title, corpus, options.peers, options.corpus_runs, options.limit)


if __name__ == "__main__":
    main()
