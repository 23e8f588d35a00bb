"""Findings located in another file than the one analysed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from amplint.findings import Finding, Note, Severity

_Place = tuple[str, str, int, int]


def with_names(finding: Finding) -> Finding:
    """`finding` with the file names of its notes, relative to its file's folder, in the form of its own file's name."""
    if not any(note.filename for note in (*finding.notes, finding.elsewhere, finding.shown) if note is not None):
        return finding
    folder = os.path.dirname(finding.filename)

    def named(note: Note) -> Note:
        return replace(note, filename=os.path.normpath(os.path.join(folder, note.filename))) if note.filename else note

    elsewhere = finding.elsewhere and named(finding.elsewhere)
    shown = finding.shown and named(finding.shown)
    return replace(finding, notes=tuple(map(named, finding.notes)), elsewhere=elsewhere, shown=shown)


def drop_repeated(results: Sequence[list[Finding]], paths: Sequence[str]) -> list[list[Finding]]:
    """`results` of the files at `paths` without findings in other files that are already reported.

    A finding counts as reported if the other file's own findings or an earlier file's contain it with at least the same
    severity.
    """
    reported: dict[_Place, Severity] = {}
    for path, findings in zip(paths, results, strict=True):
        reported |= {_place(finding, path): finding.severity for finding in findings if finding.elsewhere is None}
    kept: list[list[Finding]] = []
    for path, findings in zip(paths, results, strict=True):
        kept.append([])
        for finding in findings:
            if finding.elsewhere is not None:
                place = _place(finding, path)
                if place in reported and reported[place] >= finding.severity:
                    continue
                reported[place] = finding.severity
            kept[-1].append(finding)
    return kept


def _place(finding: Finding, path: str) -> _Place:
    start = (finding.elsewhere or finding).span.start
    if finding.elsewhere is not None:
        path = os.path.normpath(os.path.join(os.path.dirname(path), finding.elsewhere.filename))
    return finding.code, path, start.row, start.column
