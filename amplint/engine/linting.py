"""Linting and repair of files and texts, shared by the command line and the Python API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from amplint.engine.config import ConfigError
from amplint.engine.diagnostics import internal_error
from amplint.engine.discover import Target
from amplint.engine.projects import Projects
from amplint.engine.run import Linter
from amplint.findings import Finding
from amplint.records import dataclass

if TYPE_CHECKING:
    from amplint.engine.fixing import Repaired


@dataclass(frozen=True)
class Linted:
    """The findings in a file or text, after its repair if there was one."""

    target: Target
    findings: list[Finding]
    repaired: Repaired | None = None


def text_target(name: str, projects: Projects) -> Target:
    """The target for a text under the file name `name`. Raises ConfigError."""
    path = os.path.abspath(name)
    return Target(name, path, projects.of(Path(path).parent))


def lint_text(raw: bytes, target: Target, linter: Linter, *, fix: bool = False) -> Linted:
    """Lint and, with `fix`, repair `raw`, the content of `target`. Raises ConfigError."""
    findings = linter.check(target, raw)
    return _repaired(target, findings, linter, raw=raw) if fix else Linted(target, findings)


def lint_files(
    targets: Sequence[Target],
    linter: Linter,
    progress: Callable[[int], None] = lambda finished: None,
    *,
    fix: bool = False,
    write: bool = False,
    named: bool = False,
) -> Iterator[Linted]:
    """Lint `targets` and then, with `named`, the configuration files that they name.

    With `fix`, each is repaired on demand and, with `write`, replaced. `progress` is called with the number of files
    finished since its last call. Raises ConfigError.
    """
    if write:
        from amplint.fixes.write import sweep  # only repairs need it

        sweep(target.path for target in targets)
    results = [*zip(targets, linter.check_all(targets, progress), strict=True)]
    return (
        _repaired(target, findings, linter, write=write) if fix else Linted(target, findings)
        for target, findings in (*results, *(linter.check_named(targets) if named else ()))
    )


def _repaired(
    target: Target, findings: list[Finding], linter: Linter, *, raw: bytes | None = None, write: bool = False
) -> Linted:
    """The result of repairing `raw`, or the file if that is None."""
    if not any(finding.fix for finding in findings):
        return Linted(target, findings)
    from amplint.engine.fixing import applicable, repair, repair_file  # it imports many modules

    if not applicable(findings, target.settings):
        return Linted(target, findings)
    try:
        repaired = repair_file(target, linter, write=write) if raw is None else repair(raw, target, linter)
    except ConfigError:
        raise
    except Exception as failure:
        return Linted(target, [internal_error(target.filename, "The repair", failure), *findings])
    return Linted(target, repaired.findings, repaired)
