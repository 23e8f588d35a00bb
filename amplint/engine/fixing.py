"""Repairing a file: apply what goes together, lint the result, and again until nothing is left to apply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amplint.engine.config import Settings, size_limit
from amplint.engine.diagnostics import CutShort, RuleCrashed, SyntaxErrorFound, UnreadableFile, diagnostic
from amplint.engine.discover import Target
from amplint.engine.run import Linter, opened, unreadable
from amplint.findings import Applicability, Finding, Fix
from amplint.fixes.apply import apply_round
from amplint.fixes.imports import remove_stale_imports
from amplint.fixes.verify import verify
from amplint.fixes.write import replace_file
from amplint.notebooks.page import Page
from amplint.records import dataclass
from amplint.source.encoding import SourceError
from amplint.source.files import read

ROUNDS = 20
_BREAKING = frozenset({SyntaxErrorFound.code, RuleCrashed.code})


@dataclass(frozen=True)
class Repaired:
    """The content of a file before and after, what is still found in it, and how many fixes were applied.

    The Python API says in `filename` which file that is; `codes` are those of the rules whose fixes were applied.
    """

    before: bytes
    after: bytes
    findings: list[Finding]
    fixed: int = 0
    filename: str = ""
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _State:
    """How far a repair is: the file, what is found in it by rows of its text, and its content once that has changed."""

    page: Page
    findings: list[Finding]
    after: bytes | None = None
    codes: tuple[str, ...] = ()


def applicable(findings: Iterable[Finding], settings: Settings) -> list[Fix]:
    """The fixes among `findings` that `settings` let the linter apply."""
    fixes = (finding.fix for finding in findings)
    return [fix for fix in fixes if fix and (settings.unsafe_fixes or fix.applicability is Applicability.SAFE)]


def repair_file(target: Target, linter: Linter, *, write: bool) -> Repaired:
    """Repair the file `target` and, with `write`, replace it; a file that cannot be written has that as a finding."""
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
    """Apply the fixes of what is found in `raw`, the content of `target`, and of what is found after that.

    A fix whose result is not valid, cannot be encoded, breaks the analysis or leaves its own finding there is left out;
    the others go on. Where the analysis was cut short, there is one round.
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
        step = _step(state, fixes, target, linter)
        while step is None:
            refused.update([fix for fix in fixes if _step(state, [fix], target, linter) is None] or fixes[1:])
            fixes = [fix for fix in fixes if fix not in refused]
            step = _step(state, fixes, target, linter)
        cut = any(finding.code == CutShort.code for finding in step.findings)
        finished = step is state or cut
        state = step
        if finished:
            break
    findings = [state.page.placed(finding) for finding in state.findings]
    after = raw if state.after is None else state.after
    return Repaired(raw, after, findings, len(state.codes), codes=state.codes)


def _step(state: _State, fixes: list[Fix], target: Target, linter: Linter) -> _State | None:
    """`state` after one round of `fixes`: None when that must not be used, `state` itself when nothing changes."""
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
    if any(_repeats(fix, state.findings, findings) for fix in applied):
        return None
    codes = {finding.fix: finding.code for finding in state.findings}
    return _State(page, findings, raw, (*state.codes, *(codes[fix] for fix in applied)))


def _repeats(fix: Fix, before: Sequence[Finding], after: Sequence[Finding]) -> bool:
    """Whether as much is found `after` the fix as `before`, and is to be repaired by writing the same around it."""
    cured = next(finding for finding in before if finding.fix == fix)
    left = [one for one in after if (one.code, one.message) == (cured.code, cured.message)]
    if len(left) < sum((one.code, one.message) == (cured.code, cured.message) for one in before):
        return False
    written = [edit.content for edit in fix.edits if edit.content]
    again = [edit.content for one in left if one.fix for edit in one.fix.edits]
    return bool(written) and all(any(content in other for other in again) for content in written)


def edited(page: Page, fixes: Sequence[Fix]) -> tuple[bytes | None, list[Fix]]:
    """The file after those of `fixes` that go together, and these; None where the result is not valid."""
    old = page.text
    new, applied = apply_round(old, fixes)
    if new == old:
        return page.raw, []
    new = remove_stale_imports(old, new, keep=page.words)
    if verify(old, new, [edit for fix in applied for edit in fix.edits]) is not None:
        return None, applied
    return page.restored(new), applied


def _not_written(target: Target, failure: OSError) -> Finding:
    return diagnostic(UnreadableFile, target.filename, f"cannot be written: {failure.strerror or failure}")
