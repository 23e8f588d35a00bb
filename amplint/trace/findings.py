"""Evaluation of all checks on a record, or on those of several ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from amplint.engine.registry import load_registry
from amplint.findings import Finding, Span
from amplint.trace.check import Check
from amplint.trace.data import RunData

_PLACES = 3
"""So many lines of libraries are named for one of the user's code."""


def findings(record: RunData) -> list[Finding]:
    """The findings of all checks in `record`, worst first, then by place."""
    checks = [rule for rule in load_registry().rules.values() if issubclass(rule, Check)]
    return _worst_first([finding for check in checks for finding in _limited(check().findings(record))])


def findings_of_ranks(records: Sequence[RunData], whole: RunData) -> list[Finding]:
    """The findings in the records of several ranks, each once, naming the ranks if they are not all.

    `whole` is the merged record, which holds the ranks' differences.
    """
    found: dict[object, tuple[Finding, list[int | None]]] = {}
    for record in records:
        for finding in findings(record):
            place = (finding.code, finding.filename, finding.span, finding.notes)
            found.setdefault(place, (finding, []))[1].append(record.rank)
    alike = findings(RunData(divergences=whole.divergences))
    return _worst_first([*alike, *(_on(finding, ranks, len(records)) for finding, ranks in found.values())])


def _limited(found: Iterable[Finding]) -> Iterator[Finding]:
    """The findings of a check, at most `_PLACES` library lines for each line of the user's code."""
    lines: dict[tuple[str, Span], list[Finding]] = {}
    for finding in found:
        if finding.notes:
            lines.setdefault((finding.filename, finding.span), []).append(finding)
        else:
            yield finding
    for several in lines.values():
        *others, last = several[:_PLACES]
        yield from others
        more = len(several) - _PLACES
        like = f" (and {more} more line{'s' if more > 1 else ''} of libraries like it)" if more > 0 else ""
        yield replace(last, message=last.message + like)


def _on(finding: Finding, ranks: list[int | None], among: int) -> Finding:
    if len(ranks) == among > 1:
        return finding
    named = f"{'ranks' if len(ranks) > 1 else 'rank'} {', '.join(map(str, ranks))}"
    return replace(finding, message=f"{finding.message}, on {named}")


def _worst_first(found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: (-finding.severity, finding.filename, finding.span, finding.code))
