"""What reports that have one text for a finding say in it."""

from __future__ import annotations

from amplint.findings import Finding
from amplint.reports.marks import said


def paragraphs(finding: Finding) -> list[str]:
    """The message, what a trace says of it, the guesses it rests on, the reason and the advice, as far as there are."""
    trace = f"Trace: {said(finding.mark)}" if said(finding.mark) else ""
    guesses = (f"{guessed} See {guessed.url}" for guessed in finding.guesses)
    return [part for part in (finding.message, trace, *guesses, finding.reason, finding.advice) if part]
