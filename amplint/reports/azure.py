"""Logging commands that Azure Pipelines shows as build issues."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.findings import Finding, Severity
from amplint.reports.context import Context
from amplint.reports.places import file_rows
from amplint.reports.prose import paragraphs
from amplint.reports.text import visible_lines

_TYPES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "warning"}
"""Azure knows these two."""


def azure(findings: Sequence[Finding], context: Context) -> str:
    """`##vso[task.logissue type=error;sourcepath=...;linenumber=...;]message` for each finding."""
    return "".join(_command(finding, context) for finding in findings)


def _command(finding: Finding, context: Context) -> str:
    row, _ = file_rows(finding.filename, finding.span, context.sources)
    column = {"columnnumber": finding.span.start.column} if finding.cell is None else {}
    properties: dict[str, str | int] = {
        "type": _TYPES[finding.severity],
        "sourcepath": finding.filename,
        "linenumber": row,
        **column,
        "code": finding.code,
    }
    listed = "".join(f"{key}={_property(str(value))};" for key, value in properties.items())
    message = "\n".join(paragraphs(finding, f"{finding.code} {finding.name}: "))
    return f"##vso[task.logissue {listed}]{_data(message)}\n"


def _data(text: str) -> str:
    return visible_lines(text).replace("%", "%AZP25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace("]", "%5D").replace(";", "%3B")
