"""Counts of findings by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from amplint.claims import Verdict
from amplint.findings import Finding
from amplint.reports.marks import verdicts
from amplint.reports.text import json_text


def statistics(findings: Sequence[Finding]) -> str:
    """A table of count, code, name, severity and number with a fix; most frequent first.

    With a trace, also the number of each verdict.
    """
    rows = [{key: str(value) for key, value in row.items()} for row in _rows(findings)]
    widths = {key: max(len(row[key]) for row in rows) for key in (rows[0] if rows else ())}
    return "".join(
        f"{row['count']:>{widths['count']}}  {row['code']:<{widths['code']}}  {row['name']:<{widths['name']}}  "
        f"{row['severity']:<{widths['severity']}}  {row['fixable']} fixable{_marks(row)}\n"
        for row in rows
    )


def statistics_json(findings: Sequence[Finding]) -> str:
    """The same table as a JSON array of objects."""
    return json_text(_rows(findings), indent=2) + "\n"


def _marks(row: dict[str, str]) -> str:
    counts = [(row[verdict.value], verdict.value) for verdict in Verdict if verdict.value in row]
    return "".join(f", {count} {verdict}" for count, verdict in counts if count != "0")


def _rows(findings: Sequence[Finding]) -> list[dict[str, str | int]]:
    counts = Counter((finding.code, finding.name, finding.severity.label) for finding in findings)
    fixable = Counter(finding.code for finding in findings if finding.fix)
    by_code = {code: [finding for finding in findings if finding.code == code] for code, _, _ in counts}
    marked = any(finding.mark for finding in findings)
    marks = {code: verdicts(some) if marked else {} for code, some in by_code.items()}
    return [
        {"count": count, "code": code, "name": name, "severity": severity, "fixable": fixable[code], **marks[code]}
        for (code, name, severity), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
