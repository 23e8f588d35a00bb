"""Mistakes that lie entirely in other files, and that those files show only together with the calls of this one.

What a helper does with a loss, a scaler or an optimizer can depend on what it is given. A file's own findings are those
of its own analysis, with arguments that are unknown; what that does not report is a finding of the call.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint.engine.dispatch import Dispatcher
from amplint.findings import Finding, Severity, Span
from amplint.rule import Rule
from amplint.semantics import interpret
from amplint.semantics.reading.program import Program

if TYPE_CHECKING:
    from amplint.engine.job import Job
    from amplint.engine.modules import Lookups
    from amplint.source.source import Source


def with_calls(
    program: Program,
    found: list[Finding],
    away: Sequence[Finding],
    rules: Sequence[type[Rule]],
    job: Job,
    lookups: Lookups,
) -> list[Finding]:
    """`found`, and those of the findings `away` that the files in which they lie do not have themselves."""
    known = {(one.code, one.span) for one in found}
    wanted = [
        (one, one.elsewhere)
        for one in away
        if one.elsewhere is not None and one.severity is not Severity.INFO and (one.code, one.span) not in known
    ]
    more: dict[tuple[str, Span], Finding] = {}
    for source in program.sources:
        name = os.path.relpath(source.path, os.path.dirname(job.path)) if source.path else None
        there = [(one, place) for one, place in wanted if place.filename == name]
        if source is program.main or not there:
            continue
        codes = {one.code for one, _ in there}
        own = _own(source, [rule for rule in rules if rule.code in codes], job, lookups)
        for one, place in there:
            if (one.code, place.span) not in own:
                more.setdefault((one.code, one.span), one)
    return sorted([*found, *more.values()], key=lambda one: (one.span, one.code)) if more else found


def _own(source: Source, rules: Sequence[type[Rule]], job: Job, lookups: Lookups) -> set[tuple[str, Span]]:
    """The codes and places of what a file's own analysis reports."""
    program = Program(source, lookups, job.torch, around=lookups)
    dispatcher = Dispatcher(program, rules, job.asked)
    interpret(program, dispatcher.emit, dispatcher.kinds, None, job.seconds)
    return {(finding.code, finding.span) for finding in dispatcher.findings()}
