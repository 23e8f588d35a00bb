"""GitLab's code quality report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amplint.engine.fingerprints import fingerprints, from_root
from amplint.findings import Finding, Severity
from amplint.reports.context import Context
from amplint.reports.text import json_text, one_line

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def gitlab(findings: Sequence[Finding], context: Context) -> str:
    """An array with one issue per finding; paths are relative to the current folder."""
    marks = fingerprints(findings, context.sources.line)
    issues = [_issue(finding, mark) for finding, mark in zip(findings, marks, strict=True)]
    return json_text(issues, indent=2) + "\n"


def _issue(finding: Finding, fingerprint: str) -> dict[str, Any]:
    return {
        "description": one_line(f"{finding.code} {finding.name}: {finding.message}"),
        "check_name": finding.code,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[finding.severity],
        "location": {
            "path": from_root(finding.filename),
            "lines": {"begin": finding.span.start.row, "end": finding.span.end.row},
        },
    }
