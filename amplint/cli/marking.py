"""`amplint check --trace`: findings marked by a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amplint.cli.failures import warn
from amplint.findings import Finding
from amplint.reports.context import content
from amplint.trace.marks import Marks
from amplint.trace.record import Record


def marked(findings: Sequence[Finding], record: Record, given: Mapping[str, bytes]) -> list[Finding]:
    """`findings` with their marks; `given` holds content that is not on disk.

    Findings in files that changed since the trace are returned unmarked, with a warning.
    """
    marks = Marks(record, lambda filename: given[filename] if filename in given else content(filename))
    found = [marks.marked(finding) for finding in findings]
    for filename in sorted(marks.changed):
        warn(f"{filename} has changed since it was traced: its findings are not marked")
    return found
