"""What a conversion brings to light: findings that are new are repaired, and what is left of them stops it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from amplint.codemods.conversion import Remark
from amplint.codemods.repairs import all_rules, findings_of
from amplint.codemods.rows import row_before
from amplint.findings import Finding, Severity
from amplint.fixes.apply import apply_round
from amplint.fixes.imports import remove_stale_imports
from amplint.fixes.verify import verify

ROUNDS = 10
_SLOW = ("hard-coded-float32-buffer",)
"""Rules whose findings cost speed and memory only."""


class Completion:
    """Completes the conversion of the text `before`, the content of the file at `path` where there is one."""

    def __init__(self, before: str, path: str) -> None:
        self._before = before
        self._path = path
        self._known = Counter(finding.code for finding in self._found(before))

    def repaired(self, text: str, names: Sequence[str]) -> tuple[str, list[Remark]]:
        """`text` with the repairs of what the rules with these `names` find in it, and what they did."""
        done: list[Remark] = []
        for _ in range(ROUNDS):
            fixes = [one.fix for one in self._new(text) if one.fix is not None and one.name in names]
            repaired, applied = apply_round(text, fixes)
            repaired = remove_stale_imports(text, repaired)
            if not applied or verify(text, repaired, [edit for fix in applied for edit in fix.edits]) is not None:
                break
            text = repaired
            done += [
                Remark(row_before(self._before, text, fix.edits[0].span.start.row), fix.message) for fix in applied
            ]
        return text, done

    def objection(self, text: str) -> Remark | None:
        """The first finding in `text` that was not there before, is more than an info and does not just cost time."""
        serious = (finding for finding in self._new(text) if finding.severity > Severity.INFO)
        return next((self._remark(text, finding) for finding in serious if finding.name not in _SLOW), None)

    def left(self, text: str) -> tuple[Remark, ...]:
        """The findings in `text` that were not there before, as they are to be told to a person."""
        return tuple(Remark(finding.span.start.row, finding.message) for finding in self._new(text))

    def _remark(self, text: str, finding: Finding) -> Remark:
        return Remark(row_before(self._before, text, finding.span.start.row), f"in mixed precision, {finding.message}")

    def _new(self, text: str) -> list[Finding]:
        found = self._found(text)
        counts = Counter(finding.code for finding in found)
        return [finding for finding in found if counts[finding.code] > self._known[finding.code]]

    def _found(self, text: str) -> list[Finding]:
        return findings_of(all_rules(), text, self._path)
