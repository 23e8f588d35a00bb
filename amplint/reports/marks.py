"""The words for what a run showed of a finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from amplint.claims import Mark, Verdict
from amplint.findings import Finding


def said(mark: Mark | None) -> str:
    """`confirmed; mul took float16, gave float16 (3 times)`; nothing where the trace says nothing."""
    if mark is None:
        return ""
    verdict = mark.verdict.value if mark.verdict is not Verdict.UNDECIDED else ""
    return "; ".join(part for part in (verdict, mark.text) if part)


def verdicts(findings: Sequence[Finding]) -> dict[str, int]:
    """Verdict -> how many of the findings have it."""
    counts = Counter(finding.mark.verdict for finding in findings if finding.mark is not None)
    return {verdict.value: counts[verdict] for verdict in Verdict}
