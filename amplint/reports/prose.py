"""The shared text of reports that have one text per finding."""

from __future__ import annotations

from amplint.findings import Finding
from amplint.reports.marks import mark_text


def paragraphs(finding: Finding, title: str = "") -> list[str]:
    """The message after a `title`, the trace's mark, the guesses, the reason and the advice.

    In a notebook the place comes first, since readers of the report know the file alone.
    """
    start = finding.span.start
    cell = f"In cell {finding.cell}, line {start.row}, column {start.column}:" if finding.cell is not None else ""
    trace = f"Trace: {mark_text(finding.mark)}" if mark_text(finding.mark) else ""
    guesses = (f"{guessed} See {guessed.url}" for guessed in finding.guesses)
    return [part for part in (cell, title + finding.message, trace, *guesses, finding.reason, finding.advice) if part]
