"""The wording of a trace's verdict on a finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from amplint.claims import Mark, Verdict
from amplint.findings import Finding


def mark_text(mark: Mark | None) -> str:
    """`confirmed; mul took float16, gave float16 (3 times)`; empty if the trace has no verdict."""
    if mark is None:
        return ""
    verdict = mark.verdict.value if mark.verdict is not Verdict.UNDECIDED else ""
    return "; ".join(part for part in (verdict, mark.text) if part)


def verdicts(findings: Sequence[Finding]) -> dict[str, int]:
    """Verdict -> number of findings."""
    counts = Counter(finding.mark.verdict for finding in findings if finding.mark is not None)
    return {verdict.value: counts[verdict] for verdict in Verdict}
