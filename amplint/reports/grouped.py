"""One line per finding, grouped by file."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.findings import Finding, Span
from amplint.reports.context import Context
from amplint.reports.marks import mark_text
from amplint.reports.text import one_line, visible


def grouped(findings: Sequence[Finding], context: Context) -> str:
    """Files in the given order, an empty line after each."""
    files: dict[str, list[Finding]] = {}
    for finding in findings:
        files.setdefault(finding.filename, []).append(finding)
    return "".join(f"{visible(name)}:\n{_lines(found)}\n" for name, found in files.items())


def _lines(findings: Sequence[Finding]) -> str:
    places = [_place(finding.span) for finding in findings]
    width = max(map(len, places))
    return "".join(
        f"  {place:<{width}}  {_finding_text(finding)}\n" for place, finding in zip(places, findings, strict=True)
    )


def _place(span: Span) -> str:
    cell = f"cell {span.cell}:" if span.cell is not None else ""
    return f"{cell}{span.start.row}:{span.start.column}"


def _finding_text(finding: Finding) -> str:
    mark = f" [trace: {one_line(mark_text(finding.mark))}]" if mark_text(finding.mark) else ""
    return f"{finding.code}[{finding.name}] {finding.severity.label}: {one_line(finding.message)}{mark}"
