"""Findings under each of the half dtypes that a script can choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint.engine.dispatch import Dispatcher
from amplint.engine.screen import words_of
from amplint.findings import Finding, Note, Span
from amplint.premises import Premise
from amplint.rule import Rule
from amplint.semantics import interpret
from amplint.semantics.reading.program import Program

if TYPE_CHECKING:
    from amplint.engine.job import Job

PREMISES = {"float16": Premise.FLOAT16_CHOSEN, "bfloat16": Premise.BFLOAT16_CHOSEN}


def add_choice_findings(program: Program, found: list[Finding], rules: Sequence[type[Rule]], job: Job) -> list[Finding]:
    """`found`, and the additional findings if the script chooses one of its half dtypes."""
    reported = {_place(finding) for finding in found}
    rules = [rule for rule in rules if not rule.once]
    more: list[Finding] = []
    for dtype in [dtype for dtype in PREMISES if dtype in program.offered]:
        for finding in _findings_for(dtype, program, rules, job):
            if _place(finding) not in reported:
                reported.add(_place(finding))
                more.append(finding)
        rules = [rule for rule in rules if rule.applies_to_bfloat16]
    return sorted([*found, *more], key=lambda finding: (finding.span, finding.code))


def _findings_for(dtype: str, program: Program, rules: Sequence[type[Rule]], job: Job) -> list[Finding]:
    """The findings if the script chooses `dtype`."""
    if not rules:
        return []
    assuming = [rule for rule in rules if rule.assumed and rule.code in job.asked]
    words = words_of(assuming) if assuming else None
    dispatcher = Dispatcher(program, rules, job.asked, whole=job.whole, premises=(PREMISES[dtype],))
    interpret(program, dispatcher.emit, dispatcher.kinds, words, job.seconds / 2, dtype=dtype)
    return dispatcher.findings()


def _place(finding: Finding) -> tuple[str, Span, Note | None]:
    return finding.code, finding.span, finding.elsewhere
