"""Workflow commands that GitHub Actions shows as annotations."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.findings import Finding, Severity
from amplint.reports.context import Context
from amplint.reports.prose import paragraphs
from amplint.reports.text import visible, visible_lines

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def github(findings: Sequence[Finding], context: Context) -> str:
    """`::error file=...,line=...::message` for each finding; in a notebook, `line` is that of the file's JSON."""
    return "".join(_command(finding, context) for finding in findings)


def _command(finding: Finding, context: Context) -> str:
    start, end = finding.span.start, finding.span.end
    properties: dict[str, str | int] = {"title": f"{finding.code} {finding.name}", "file": finding.filename}
    if finding.cell is None:
        properties |= {"line": start.row, "col": start.column, "endLine": end.row, "endColumn": end.column}
    else:
        properties |= {"line": context.sources.raw_row(finding.filename, start.row, finding.cell)}
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    message = "\n".join(paragraphs(finding))
    return f"::{_LEVELS[finding.severity]} {listed}::{_data(message)}\n"


def _data(text: str) -> str:
    return visible_lines(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return visible(escaped.replace(":", "%3A").replace(",", "%2C"))
