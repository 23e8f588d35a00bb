"""Repair of a file: apply compatible fixes, lint the result, repeat until none is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from amplint.engine.config import Settings, size_limit
from amplint.engine.diagnostics import CutShort, RuleCrashed, SyntaxErrorFound, UnreadableFile, diagnostic
from amplint.engine.discover import Target
from amplint.engine.run import Linter, opened, unreadable
from amplint.findings import Applicability, Finding, Fix, Severity
from amplint.fixes.apply import apply_verified
from amplint.fixes.write import replace_file
from amplint.notebooks.page import Page
from amplint.records import dataclass
from amplint.source.encoding import SourceError
from amplint.source.files import read

ROUNDS = 20
_BREAKING = frozenset({SyntaxErrorFound.code, RuleCrashed.code})


@dataclass(frozen=True)
class Repaired:
    """A file's content before and after, its remaining findings, and the number of fixes applied.

    `filename` is set by the Python API; `codes` are those of the rules whose fixes were applied.
    """

    before: bytes
    after: bytes
    findings: list[Finding]
    fixed: int = 0
    filename: str = ""
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _State:
    """An intermediate state of a repair: page, findings by rows of its text, and the content if it has changed."""

    page: Page
    findings: list[Finding]
    after: bytes | None = None
    codes: tuple[str, ...] = ()


def applicable(findings: Iterable[Finding], settings: Settings) -> list[Fix]:
    """The fixes among `findings` that `settings` permit."""
    fixes = (finding.fix for finding in findings)
    return [fix for fix in fixes if fix and (settings.unsafe_fixes or fix.applicability is Applicability.SAFE)]


def repair_file(target: Target, linter: Linter, *, write: bool) -> Repaired:
    """Repair the file `target` and, with `write`, replace it; a failed write is returned as a finding."""
    try:
        raw = read(target.path, size_limit(target.path, target.settings.max_file_size))
    except OSError as failure:
        return Repaired(b"", b"", [unreadable(target, failure)])
    repaired = repair(raw, target, linter)
    if write and repaired.fixed:
        try:
            replace_file(target.path, repaired.after, expected=raw)
        except OSError as failure:
            return Repaired(raw, raw, [_not_written(target, failure), *linter.check(target, raw)])
    return repaired


def repair(raw: bytes, target: Target, linter: Linter) -> Repaired:
    """Apply the fixes of the findings in `raw`, the content of `target`, and of the findings in each result.

    A fix is dropped if its result does not parse, cannot be encoded, breaks the analysis or still has the finding; the
    others are applied. Where only the combination of several does, or has new errors, those of one rule come first. If
    the analysis was cut short, there is one round only.
    """
    try:
        page = opened(target.path, raw)
    except SourceError:
        return Repaired(raw, raw, linter.check(target, raw))
    state = _State(page, linter.check_page(target, page))
    refused: set[Fix] = set()
    for _ in range(ROUNDS):
        movable = [one for one in state.findings if state.page.placed(one).fix is not None]
        fixes = [fix for fix in applicable(movable, target.settings) if fix not in refused]
        while (step := _step(state, fixes, target, linter)) is None:
            by_one_rule = _of_one_rule(state, fixes)
            if len(by_one_rule) == len(fixes):
                unusable = {fix for fix in fixes if _step(state, [fix], target, linter) is None}
                refused |= unusable
                by_one_rule = [fix for fix in fixes if fix not in unusable] if unusable else fixes[:1]
            fixes = by_one_rule
        cut = any(finding.code == CutShort.code for finding in step.findings)
        finished = step is state or cut
        state = step
        if finished:
            break
    findings = [state.page.placed(finding) for finding in state.findings]
    after = raw if state.after is None else state.after
    return Repaired(raw, after, findings, len(state.codes), codes=state.codes)


def _step(state: _State, fixes: list[Fix], target: Target, linter: Linter) -> _State | None:
    """The state after one round of `fixes`: None if the result is unusable, `state` itself if nothing changed."""
    raw, applied = edited(state.page, fixes)
    if raw is None:
        return None
    if not applied:
        return state
    page = opened(target.path, raw)
    findings = linter.check_page(target, page)
    broken, was_broken = ({one.code for one in some} & _BREAKING for some in (findings, state.findings))
    if not broken <= was_broken:
        return None
    if any(_makes_no_progress(fix, state.findings, findings) for fix in applied):
        return None
    if len(applied) > 1 and _errors(findings) - _errors(state.findings):
        return None
    return _State(page, findings, raw, (*state.codes, *(_code(state, fix) for fix in applied)))


def _of_one_rule(state: _State, fixes: Sequence[Fix]) -> list[Fix]:
    """Those of `fixes` that are by the rule of the first."""
    return [fix for fix in fixes if _code(state, fix) == _code(state, fixes[0])]


def _code(state: _State, fix: Fix) -> str:
    """The code of the rule that a fix of a finding is by."""
    return next(finding.code for finding in state.findings if finding.fix == fix)


def _errors(findings: Sequence[Finding]) -> Counter[str]:
    """How often each rule reports an error."""
    return Counter(one.code for one in findings if one.severity is Severity.ERROR)


def _makes_no_progress(fix: Fix, before: Sequence[Finding], after: Sequence[Finding]) -> bool:
    """Whether the fix leaves as many findings `after` as `before`, with a fix that would insert the same text again."""
    cured = next(finding for finding in before if finding.fix == fix)
    left = [one for one in after if (one.code, one.message) == (cured.code, cured.message)]
    if len(left) < sum((one.code, one.message) == (cured.code, cured.message) for one in before):
        return False
    written = [edit.content for edit in fix.edits if edit.content]
    again = [edit.content for one in left if one.fix for edit in one.fix.edits]
    return bool(written) and all(any(content in other for other in again) for content in written)


def edited(page: Page, fixes: Sequence[Fix]) -> tuple[bytes | None, list[Fix]]:
    """The file after applying the compatible ones of `fixes`, and these; None if the result is invalid."""
    old = page.text
    new, applied, why = apply_verified(old, fixes, page.words)
    if new == old:
        return page.raw, []
    return page.restored(new) if why is None else None, applied


def _not_written(target: Target, failure: OSError) -> Finding:
    return diagnostic(UnreadableFile, target.filename, f"cannot be written: {failure.strerror or failure}")
