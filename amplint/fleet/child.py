"""The process that lints one repository: a JSON object as input, a line of output per file and one at the end.

It may be killed at any time: by its parent on a timeout, or by the system for its memory.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from amplint.engine.cache import Cache
from amplint.engine.config import ConfigError, Settings, load
from amplint.engine.deep import collect_rarely
from amplint.engine.discover import Target, discover
from amplint.engine.elsewhere import drop_repeated
from amplint.engine.fingerprints import fingerprints
from amplint.engine.projects import Projects
from amplint.engine.registry import load_registry
from amplint.engine.run import Linter
from amplint.findings import Finding
from amplint.hardening import distrust
from amplint.reports.context import Sources
from amplint.reports.text import one_line


def main() -> None:
    """Lint the folder that standard input names."""
    wish = json.load(sys.stdin)
    _limit_memory(wish["memory"])
    collect_rarely()
    os.chdir(wish["folder"])
    distrust([os.curdir])
    try:
        findings, files, size = _lint(wish)
    except ConfigError as failure:
        _send_message(failure=one_line(str(failure)))
        return
    sources = Sources()
    rows = [_row(finding, mark) for finding, mark in zip(findings, fingerprints(findings, sources.line), strict=True)]
    _send_message(files=files, bytes=size, findings=rows)


def _lint(wish: dict[str, Any]) -> tuple[list[Finding], int, int]:
    rules = load_registry().rules
    folder = Path.cwd()
    fixed = None
    if not wish["own_settings"]:
        file = wish["config"]
        fixed = Settings(root=folder) if file is None else load(Path(file), rules, root=folder)
        if fixed is None:
            raise ConfigError(f"{file} has no table [tool.amplint]")
    projects = Projects(rules, fixed=fixed)
    found = discover([os.curdir], projects)
    targets = [target for target in found.targets if target.filename not in wish["skip"]]
    linter = Linter(projects, Cache(None))
    results = []
    for target in targets:
        _send_message(begins=target.filename)
        results += linter.check_all([target], lambda done: None)
    once = drop_repeated(results, [target.path for target in targets])
    findings = [*found.problems, *(finding for some in once for finding in some)]
    return findings, len(targets), sum(map(_size, targets))


def _size(target: Target) -> int:
    try:
        return os.stat(target.path).st_size
    except OSError:
        return 0


def _row(finding: Finding, fingerprint: str) -> dict[str, Any]:
    start, end = finding.span.start, finding.span.end
    return {
        "path": os.path.normpath(finding.filename),
        "cell": finding.cell,
        "row": start.row,
        "column": start.column,
        "end_row": end.row,
        "end_column": end.column,
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.label,
        "message": one_line(finding.message),
        "advice": one_line(finding.advice),
        "fix": finding.fix.applicability.value if finding.fix else "no",
        "fingerprint": fingerprint,
    }


def _send_message(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def _limit_memory(limit: int) -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main()
