"""Findings that tell of other files than their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from amplint.findings import Finding, Note, Severity

_Place = tuple[str, str, int, int]


def with_names(finding: Finding) -> Finding:
    """`finding` with the files of its notes, told from its own file's folder, named as reports show its own file."""
    if not any(note.filename for note in (*finding.notes, finding.elsewhere, finding.shown) if note is not None):
        return finding
    folder = os.path.dirname(finding.filename)

    def named(note: Note) -> Note:
        return replace(note, filename=os.path.normpath(os.path.join(folder, note.filename))) if note.filename else note

    elsewhere = finding.elsewhere and named(finding.elsewhere)
    shown = finding.shown and named(finding.shown)
    return replace(finding, notes=tuple(map(named, finding.notes)), elsewhere=elsewhere, shown=shown)


def drop_repeated(results: Sequence[list[Finding]], paths: Sequence[str]) -> list[list[Finding]]:
    """`results` of the files at `paths` without what is said of a place in another file that has been told already.

    It has been told when that file's own findings or an earlier file's hold it, and it weighs no more than there.
    """
    told: dict[_Place, Severity] = {}
    for path, findings in zip(paths, results, strict=True):
        told |= {_place(finding, path): finding.severity for finding in findings if finding.elsewhere is None}
    kept: list[list[Finding]] = []
    for path, findings in zip(paths, results, strict=True):
        kept.append([])
        for finding in findings:
            if finding.elsewhere is not None:
                place = _place(finding, path)
                if place in told and told[place] >= finding.severity:
                    continue
                told[place] = finding.severity
            kept[-1].append(finding)
    return kept


def _place(finding: Finding, path: str) -> _Place:
    start = (finding.elsewhere or finding).span.start
    if finding.elsewhere is not None:
        path = os.path.normpath(os.path.join(os.path.dirname(path), finding.elsewhere.filename))
    return finding.code, path, start.row, start.column
