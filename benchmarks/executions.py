"""A process that lints files and tells of each what it cost and how often its statements were executed.

    python -m benchmarks.executions PATH...

It prints a line of JSON for each file as soon as it is done. A statement counts once for every path, round of a loop,
call and choice it is executed in; distinct ones are those that were executed at all, in the file and what it reaches.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from amplint.cli.main import main as amplint
from amplint.engine import run
from amplint.engine.analyse import Analysis
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.semantics.python import statements
from amplint.source import syntax as cst


@dataclass(frozen=True)
class Executed:
    """What one file came to: CPU seconds, executions of statements, and of how many different ones."""

    path: str
    seconds: float
    executions: int
    distinct: int

    @property
    def each(self) -> float:
        """Executions per distinct statement; 0 where none was executed."""
        return self.executions / self.distinct if self.distinct else 0.0


def read(printed: str) -> list[Executed]:
    """What a process of this module has `printed`, the last line perhaps cut off."""
    return [Executed(**json.loads(line)) for line in printed.splitlines() if line.startswith("{") and line[-1] == "}"]


def count(counts: Counter[cst.CSTNode]) -> None:
    """Make the interpreter add each execution of a statement to `counts` from now on."""

    def small(handle: Callable[..., Any]) -> Callable[..., Any]:
        def counted(machine: object, state: object, node: cst.CSTNode) -> Any:
            counts[node] += 1
            return handle(machine, state, node)

        return counted

    def compound(handle: Callable[..., Any]) -> Callable[..., Any]:
        def counted(machine: object, states: list[Any], node: cst.CSTNode, flow: object) -> Any:
            counts[node] += len(states)
            return handle(machine, states, node, flow)

        return counted

    statements._SIMPLE.update({kind: small(handle) for kind, handle in statements._SIMPLE.items()})
    statements._COMPOUND.update({kind: compound(handle) for kind, handle in statements._COMPOUND.items()})
    statements._if = statements._COMPOUND[cst.If]  # an `elif` gets there without the table


def main(paths: Iterable[str]) -> None:
    """Lint `paths` in this process, one file after the other."""
    counts: Counter[cst.CSTNode] = Counter()
    said = sys.stdout
    analyse = run.analyse

    def counted(job: Job, modules: Modules) -> Analysis:
        counts.clear()
        start = time.process_time()
        analysis = analyse(job, modules)
        seconds = time.process_time() - start
        found = Executed(job.path, round(seconds, 3), counts.total(), len(counts))
        print(json.dumps(asdict(found)), file=said, flush=True)
        return analysis

    count(counts)
    run.analyse = counted
    run.cores = lambda: 1  # keeps everything in this process
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        amplint(["check", "--no-cache", "--quiet", "--exit-zero", *paths])


if __name__ == "__main__":
    main(sys.argv[1:])
