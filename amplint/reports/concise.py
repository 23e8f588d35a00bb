"""One line per finding."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.findings import Finding
from amplint.reports.context import Context
from amplint.reports.marks import mark_text
from amplint.reports.places import location_text
from amplint.reports.text import one_line


def concise(findings: Sequence[Finding], context: Context) -> str:
    """`path:row:column: CODE[name] severity: message` for each finding, followed by the trace's mark in brackets.

    In a notebook the place is `path:cell N:row:column`.
    """
    return "".join(_line(finding) for finding in findings)


def _line(finding: Finding) -> str:
    place = location_text(finding.filename, finding.span)
    mark = f" [trace: {one_line(mark_text(finding.mark))}]" if mark_text(finding.mark) else ""
    return f"{place}: {finding.code}[{finding.name}] {finding.severity.label}: {one_line(finding.message)}{mark}\n"
