"""GitLab's code quality report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amplint.engine.fingerprints import fingerprints, from_root
from amplint.findings import Finding, Severity
from amplint.reports.context import Context
from amplint.reports.places import file_rows
from amplint.reports.text import json_text, one_line

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def gitlab(findings: Sequence[Finding], context: Context) -> str:
    """An array with one issue per finding; paths are relative to the current folder."""
    marks = fingerprints(findings, context.sources.line)
    issues = [_issue(finding, mark, context) for finding, mark in zip(findings, marks, strict=True)]
    return json_text(issues, indent=2) + "\n"


def _issue(finding: Finding, fingerprint: str, context: Context) -> dict[str, Any]:
    first, last = file_rows(finding.filename, finding.span, context.sources)
    cell = f" (in cell {finding.cell})" if finding.cell is not None else ""
    return {
        "description": one_line(f"{finding.code} {finding.name}: {finding.message}{cell}"),
        "check_name": finding.code,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[finding.severity],
        "location": {
            "path": from_root(finding.filename),
            "lines": {"begin": first, "end": last},
        },
    }
