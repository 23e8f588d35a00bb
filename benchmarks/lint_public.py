"""Measures amplint on public scripts and repositories beside torchfix, ruff and libcst, and what is wanted of it."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import libcst
from rich.console import Console
from rich.table import Table

from benchmarks import executions
from benchmarks.executions import Executed
from benchmarks.irrelevant import irrelevant
from benchmarks.lint_targets import Amount, Target, columns, shown, verdicts
from benchmarks.linters import COMMANDS, installed
from benchmarks.processes import run
from benchmarks.public import COMPARED, TRAINING, TREES

_ROOT = Path(__file__).parents[1]
_PARSE = "import sys, libcst; libcst.parse_module(open(sys.argv[1], 'rb').read())"
_FLOOR = "libcst"
_MENTIONS = re.compile(rb"autocast|GradScaler|\bamp\b|fp16|float16|\.half\(")
_STRICT = (*COMMANDS["ruff"], "--select", "ALL")
_CACHED = ("amplint", "check", "--cache-dir", "cache", "--output-format", "concise")
_TIMM, _TRANSFORMERS = TREES[:2]
TIMM_BEFORE = 36.15
"""How many times the CPU time of `ruff check --select ALL` timm took before the interpreter was rebuilt."""
PER_MEGABYTE = 10.0
PER_FILE = 2.0
PER_STATEMENT = 6.0
SCRIPTS_MOST = {COMPARED[1]: {"torchfix": 0.4, _FLOOR: 2.5}, COMPARED[0]: {_FLOOR: 1.5}}
"""Script -> other program -> how many times its CPU time amplint may take."""


@dataclass
class Measuring:
    """Where the repositories and the other linters are, when a run is ended, and what has been held against targets.

    Only what has `only` in its name is measured.
    """

    console: Console
    repositories: Path
    peers: Path | None
    runs: int
    limit: float
    only: str = ""
    targets: list[Target] = field(default_factory=list)

    def cpu(self, command: Iterable[str], inside: Path) -> Amount:
        """The CPU seconds of a run."""
        cost = run(list(command), inside, self.limit)
        return Amount(cost.cpu, cost.ended)

    def executed(self, paths: Iterable[Path]) -> tuple[list[Executed], bool]:
        """What `benchmarks.executions` says of each file, and whether it was ended before the last one."""
        command = [sys.executable, "-m", executions.__name__, *map(str, paths)]
        cost = run(command, _ROOT, self.limit)
        return executions.read(cost.printed), cost.ended

    def present(self, names: Iterable[str]) -> Iterator[tuple[str, Path]]:
        """Those of `names` that are there, each with its path; of others it is said that they are not."""
        for name in (one for one in names if self.only in one):
            path = self.repositories / name
            if path.exists():
                yield name, path
            else:
                self.console.print(f"{name} is not there: skipped", markup=False)

    def show(self, table: Table) -> None:
        """Print `table` unless nothing is in it."""
        if table.row_count:
            self.console.print(table)

    def want(self, what: str, amount: Amount | None, most: float) -> None:
        """Hold `amount` against a target."""
        self.targets.append(Target(what, amount, most))


def measure(measuring: Measuring) -> None:
    """Measure everything and print the tables."""
    for step in (_scripts, _trees, _executions, _irrelevant):
        step(measuring)
    measuring.show(verdicts(measuring.targets))


def _scripts(measuring: Measuring) -> None:
    """CPU seconds of each tool on each script, in the script's own repository; the fastest of several runs."""
    programs = {name: installed(COMMANDS[name], measuring.peers) for name in ("amplint", "torchfix", "ruff")}
    programs[_FLOOR] = [sys.executable, "-c", _PARSE]
    others = list(programs)[1:]
    table = columns(
        "one script, CPU seconds and amplint's as a multiple", "script", *programs, *(f"/ {name}" for name in others)
    )
    for name, path in measuring.present(COMPARED):
        taken: dict[str, Amount] = {}
        for _ in range(measuring.runs):
            for program, command in programs.items():
                if command is not None:
                    with measuring.console.status(f"{name}: {program}"):
                        amount = measuring.cpu([*command, path.name], path.parent)
                    taken[program] = min(amount, taken.get(program, amount), key=lambda one: one.value)
        ratios = {other: taken["amplint"].over(taken.get(other)) for other in others}
        table.add_row(name, *(shown(taken.get(one), digits=3) for one in programs), *map(shown, ratios.values()))
        for other, most in SCRIPTS_MOST.get(name, {}).items():
            measuring.want(f"{name} / {other}", ratios[other], most)
    measuring.show(table)


def _trees(measuring: Measuring) -> None:
    """CPU seconds for whole repositories: with an empty cache, again with what that run left, and of each file."""
    own, strict = installed(_CACHED, measuring.peers), installed(_STRICT, measuring.peers)
    assert own is not None
    table = columns(
        f"repositories, CPU seconds, ended after {measuring.limit:.0f} s",
        "repository", "files", "MB, AMP", "amplint", "ruff ALL", "ratio", "warm", "ratio", "per MB", "slowest file",
    )  # fmt: skip
    for name, path in measuring.present(TREES):
        with tempfile.TemporaryDirectory() as scratch, measuring.console.status(name):
            cold = measuring.cpu([*own, str(path)], Path(scratch))
            warm = None if cold.at_least else measuring.cpu([*own, str(path)], Path(scratch))
            ruff = measuring.cpu([*strict, str(path)], Path(scratch)) if strict else None
            files, ended = measuring.executed([path])
        count, megabytes = _mentioning(path)
        slowest = Amount(max((file.seconds for file in files), default=0.0), ended)
        each = cold.over(Amount(megabytes))
        again = warm.over(ruff) if warm is not None else None
        table.add_row(
            name, f"{count:,}", f"{megabytes:.2f}", shown(cold), shown(ruff), shown(cold.over(ruff)), shown(warm),
            shown(again), shown(each), shown(slowest),
        )  # fmt: skip
        if name == _TIMM:
            measuring.want(f"{name} / ruff ALL, a sixth of before", cold.over(ruff), TIMM_BEFORE / 6)
        if name == _TRANSFORMERS:
            measuring.want(f"{name} / ruff ALL", cold.over(ruff), 5.0)
            measuring.want(f"{name} warm / ruff ALL", again, 0.3)
        measuring.want(f"{name}, CPU s per MB with AMP", each, PER_MEGABYTE)
        measuring.want(f"{name}, CPU s of the slowest file", slowest, PER_FILE)
    measuring.show(table)


def _mentioning(folder: Path) -> tuple[int, float]:
    """How many Python files are in `folder`, and how many megabytes those are that mention mixed precision."""
    contents = [path.read_bytes() for path in folder.rglob("*.py") if path.is_file()]
    return len(contents), sum(len(content) for content in contents if _MENTIONS.search(content)) / 1e6


def _executions(measuring: Measuring) -> None:
    """How often statements of training scripts are executed."""
    table = columns("executions of statements", "script", "CPU seconds", "executions", "distinct", "each")
    every: list[float] = []
    for name, path in measuring.present(TRAINING):
        with measuring.console.status(name):
            found, ended = measuring.executed([path])
        if not found:
            table.add_row(name, "too long" if ended else "failed")
            continue
        one = found[0]
        every.append(one.each)
        table.add_row(name, f"{one.seconds:.2f}", f"{one.executions:,}", f"{one.distinct:,}", f"{one.each:.1f}")
    measuring.show(table)
    average = Amount(mean(every)) if every else None
    measuring.want(f"executions per statement, {len(every)} scripts", average, PER_STATEMENT)


def _irrelevant(measuring: Measuring) -> None:
    """What as many lines as a script has, of code that has nothing to do with mixed precision, add to it."""
    table = columns(
        "as much irrelevant code added", "script", "CPU seconds", "with it", "parse of it", "executions", "with it"
    )
    for name, path in measuring.present(COMPARED):
        text = path.read_text(encoding="utf-8")
        more = irrelevant(text.count("\n"))
        with tempfile.TemporaryDirectory() as scratch, measuring.console.status(name):
            folder = Path(scratch, path.parent.name)
            shutil.copytree(path.parent, folder, ignore=shutil.ignore_patterns(".git"))
            copies = [folder / f"{stem}.py" for stem in ("copy_to_warm_up", "copy_as_it_is", "copy_with_more")]
            for copy in copies:
                copy.write_text(text + (more if copy is copies[-1] else ""), encoding="utf-8")
            found, _ = measuring.executed(copies)
        if len(found) < len(copies):
            table.add_row(name, "too long")
            continue
        of = {Path(one.path): one for one in found}
        plain, longer = (of[copy] for copy in copies[1:])
        parse = _seconds(lambda text=more: libcst.parse_module(text))
        table.add_row(
            name, f"{plain.seconds:.3f}", f"{longer.seconds:.3f}", f"{parse:.3f}", f"{plain.executions:,}",
            f"{longer.executions:,}",
        )  # fmt: skip
        measuring.want(f"{name}, executions added", Amount(longer.executions - plain.executions), 0.0)
        added = Amount(max(0.0, longer.seconds - plain.seconds) / parse)
        measuring.want(f"{name}, CPU added / its parse", added, 1.2)
    measuring.show(table)


def _seconds(work: Callable[[], object]) -> float:
    """CPU seconds of the faster of two runs."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)
