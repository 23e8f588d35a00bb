"""Findings of a program by the engine alone, without files, configuration and suppressions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.findings import Finding
from amplint.rule import Rule

Rules = Iterable[type[Rule]]


def findings_of(
    program: str | bytes, rules: Rules, others: Rules = (), *, path: str = "", **options: Any
) -> list[Finding]:
    """What `rules`, and in its imports `others`, find in a program at the absolute `path`.

    Without a path it has no project. `options` are those of `Job`.
    """
    raw = program if isinstance(program, bytes) else program.encode()
    job = Job(Path(path).name or "program.py", path, raw, tuple(rules), tuple(others), **options)
    return analyse(job, Modules()).findings
