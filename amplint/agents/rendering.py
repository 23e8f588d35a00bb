"""Findings as answers: short, and plain text only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from amplint.agents.answers import FindingLine, Place, fitting
from amplint.agents.workspace import Workspace
from amplint.engine.fingerprints import fingerprints
from amplint.findings import Finding, Note
from amplint.reports.context import Sources
from amplint.reports.text import one_line, visible

_ID = 12
"""Hexadecimal digits of a finding's fingerprint that an answer shows."""
_LONGEST_TEXT = 300
_LONGEST_CODE = 160


def lines(findings: Sequence[Finding]) -> tuple[list[FindingLine], dict[str, int]]:
    """As many `findings` as fit into an answer, the most severe first, and counts of the others by rule."""
    marks = fingerprints(findings, Sources().line)
    pairs = sorted(zip(findings, marks, strict=True), key=lambda pair: -pair[0].severity)
    taken = fitting(line(finding, mark) for finding, mark in pairs)
    return taken, dict(Counter(finding.code for finding, _ in pairs[len(taken) :]))


def by_id(findings: Sequence[Finding], wanted: str) -> tuple[Finding, FindingLine] | None:
    """The single finding whose fingerprint begins with `wanted`."""
    marks = fingerprints(findings, Sources().line)
    found = [
        (finding, mark) for finding, mark in zip(findings, marks, strict=True) if wanted and mark.startswith(wanted)
    ]
    if len(found) != 1:
        return None
    ((finding, mark),) = found
    return finding, line(finding, mark)


def line(finding: Finding, mark: str) -> FindingLine:
    """`finding` in short, with its fingerprint `mark`."""
    start = finding.span.start
    return FindingLine(
        id=mark[:_ID],
        path=visible(finding.filename),
        cell=finding.cell,
        row=start.row,
        column=start.column,
        rule=finding.code,
        severity=finding.severity.label,
        fix=finding.fix.applicability.value if finding.fix else "no",
        message=short(finding.message),
        advice=short(finding.advice),
    )


def steps(finding: Finding, workspace: Workspace, sources: Sources) -> list[Place]:
    """The steps that lead to `finding`, with their code if it lies in the workspace."""
    notes: Iterable[Note] = (*finding.notes, *([finding.elsewhere] if finding.elsewhere else []))
    return [
        place(note.filename or finding.filename, note.span.start.row, note.span.cell, workspace, sources, note.message)
        for note in notes
    ]


def around(finding: Finding, rows: int, workspace: Workspace, sources: Sources) -> list[Place]:
    """The lines of `finding`'s file from `rows` before its start to as many after it."""
    start = finding.span.start.row
    shown = range(max(1, start - rows), start + rows + 1)
    places = (place(finding.filename, row, finding.cell, workspace, sources) for row in shown)
    return [each for each in places if each.code or each.row == start]


def place(
    filename: str, row: int, cell: int | None, workspace: Workspace, sources: Sources, message: str = ""
) -> Place:
    """A line of a file; the code of files outside of the workspace is not shown."""
    code = sources.line(filename, row, cell) if workspace.holds(filename) else None
    shown = visible((code or "").expandtabs(4).rstrip())[:_LONGEST_CODE]
    return Place(path=visible(filename), cell=cell, row=row, code=shown, message=short(message))


def short(text: str) -> str:
    """`text` as one line, shortened if it is too long."""
    shown = one_line(text)
    return shown if len(shown) <= _LONGEST_TEXT else shown[: _LONGEST_TEXT - 3] + "..."
