"""What reports that have one text for a finding say in it."""

from __future__ import annotations

from amplint.findings import Finding
from amplint.reports.marks import said


def paragraphs(finding: Finding, title: str = "") -> list[str]:
    """The message after a `title`, what a trace says of it, the guesses it rests on, the reason and the advice.

    Where it is in a notebook, the place comes first: what reads the report knows the file alone.
    """
    start = finding.span.start
    cell = f"In cell {finding.cell}, line {start.row}, column {start.column}:" if finding.cell is not None else ""
    trace = f"Trace: {said(finding.mark)}" if said(finding.mark) else ""
    guesses = (f"{guessed} See {guessed.url}" for guessed in finding.guesses)
    return [part for part in (cell, title + finding.message, trace, *guesses, finding.reason, finding.advice) if part]
