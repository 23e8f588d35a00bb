"""The tools that read, and write on request, but run nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from amplint.agents import rendering
from amplint.agents.answers import (
    LONGEST,
    Checked,
    ConvertedFile,
    Evidence,
    Fixed,
    Replacement,
    RulePage,
    cut,
    encodable,
    fitting,
)
from amplint.agents.workspace import Refused, Workspace
from amplint.api import describe
from amplint.codemods.conversion import Remark, Wish
from amplint.codemods.files import convert_file
from amplint.codemods.registry import require
from amplint.engine.config import Settings
from amplint.engine.diagnostics import UnreadableFile
from amplint.engine.linting import lint_files
from amplint.engine.select import nearest_rule
from amplint.findings import Finding, Severity
from amplint.reports.context import Sources
from amplint.reports.diff import unified
from amplint.reports.text import fitting as room_for
from amplint.reports.text import one_line
from amplint.source.encoding import shown_text

_ROWS_AROUND = 3
_PART = LONGEST // 3
"""Room of each of several lists in one answer."""


def check(workspace: Workspace, paths: Sequence[str], codes: Sequence[str], least: Severity) -> Checked:
    """Lint the files and folders `paths`. Raises Refused, ConfigError and UnknownSelector."""
    projects = workspace.projects(codes)
    found = workspace.found(paths, projects)
    results = lint_files(found.targets, workspace.linter(projects))
    findings = [*found.problems, *(finding for linted in results for finding in linted.findings)]
    findings = [finding for finding in findings if finding.severity >= least]
    shown, left_out = rendering.lines(findings)
    return Checked(
        files=len(found.targets),
        total=len(findings),
        findings=shown,
        left_out=left_out,
        truncated=bool(left_out),
    )


def explain_rule(workspace: Workspace, code_or_name: str) -> RulePage:
    """The page of a rule. Raises Refused."""
    rule = workspace.registry.find(code_or_name)
    if rule is None:
        near = nearest_rule(code_or_name, workspace.registry.rules)
        raise Refused(f'no rule has the code or name "{code_or_name}"{near}')
    said = describe(rule)
    page = cut(said.documentation)
    return RulePage(
        code=said.code,
        name=said.name,
        severity=said.severity.label,
        fix=said.fixable.value if said.fixable else "no",
        default=said.default,
        summary=said.summary,
        page=page,
        url=said.url,
        truncated=page != said.documentation,
    )


def explain_finding(workspace: Workspace, path: str, wanted: str, codes: Sequence[str]) -> Evidence:
    """The evidence for the finding with the id `wanted` in the file at `path`. Raises as `check` does."""
    projects = workspace.projects(codes)
    target = workspace.file(path, projects)
    (linted,) = lint_files([target], workspace.linter(projects))
    known = rendering.by_id(linted.findings, wanted)
    if known is None:
        raise Refused(f"{path}: no finding has the id {wanted}; ids come from check, with the same codes")
    finding, shown = known
    sources = Sources()
    steps = rendering.steps(finding, workspace, sources)
    taken = fitting(steps, _PART)
    edits = finding.fix.edits if finding.fix else ()
    replacements = [
        Replacement(
            row=edit.span.start.row,
            column=edit.span.start.column,
            end_row=edit.span.end.row,
            end_column=edit.span.end.column,
            text=encodable(edit.content),
        )
        for edit in edits
    ]
    repair = fitting(replacements, _PART)
    complete = len(repair) == len(replacements)
    return Evidence(
        finding=shown,
        name=finding.name,
        reason=rendering.short(finding.reason),
        steps=taken,
        source=rendering.around(finding, _ROWS_AROUND, workspace, sources),
        guesses=[one_line(str(guess)) for guess in finding.guesses],
        repair=rendering.short(finding.fix.message) if finding.fix else "",
        replacements=repair if complete else [],
        imports=list(finding.fix.imports) if finding.fix else [],
        url=workspace.registry.rules[finding.code].url(),
        truncated=len(taken) < len(steps) or not complete,
    )


def fix(workspace: Workspace, path: str, codes: Sequence[str], *, unsafe: bool, text: bool, write: bool) -> Fixed:
    """Repair the file at `path` and, with `write`, replace it. Raises as `check` does."""

    def over(settings: Settings) -> Settings:
        return replace(settings, unsafe_fixes=True) if unsafe else settings

    projects = workspace.projects(codes, over)
    target = workspace.file(path, projects)
    (linted,) = lint_files([target], workspace.linter(projects), fix=True, write=write)
    repaired = linted.repaired
    if write and (failure := _not_written(linted.findings)):
        raise Refused(f"{path}: {failure}")
    before, after = (repaired.before, repaired.after) if repaired else (b"", b"")
    return Fixed(
        path=one_line(target.filename),
        changed=before != after,
        written=write and before != after,
        fixes=repaired.fixed if repaired else 0,
        left=len(linted.findings),
        **_shown(target.filename, before, after, text),
    )


def convert(workspace: Workspace, path: str, wish: Wish, *, text: bool, write: bool) -> ConvertedFile:
    """Convert the file at `path` and, with `write`, replace it. Raises Refused and ConfigError."""
    try:
        require(wish)
    except ValueError as failure:
        raise Refused(str(failure)) from None
    target = workspace.file(path, workspace.projects())
    converted = convert_file(target.filename, target.path, wish, write=write)
    if converted.failure:
        raise Refused(f"{path}: {converted.failure}")
    changed = converted.before != converted.after
    lists = [_remarks(remarks) for remarks in (converted.done, converted.reasons, converted.checks)]
    answer = ConvertedFile(
        path=one_line(target.filename),
        changed=changed,
        written=write and changed,
        done=lists[0],
        refused=lists[1],
        to_check=lists[2],
        **_shown(target.filename, converted.before, converted.after, text),
    )
    given = len(converted.done) + len(converted.reasons) + len(converted.checks)
    answer.truncated |= sum(map(len, lists)) < given
    return answer


def _not_written(findings: Iterable[Finding]) -> str:
    """Why a file could not be read or written, empty on success."""
    return next((finding.message for finding in findings if finding.code == UnreadableFile.code), "")


def _shown(filename: str, before: bytes, after: bytes, text: bool) -> dict[str, Any]:
    """The change as a diff or, with `text`, as the new content, which is never cut."""
    if before == after:
        return {}
    if not text:
        whole = encodable(unified(filename, before, after, escape=False))
        diff = cut(whole)
        return {"diff": diff, "truncated": diff != whole}
    content = encodable(shown_text(after))
    fits = cut(content) == content
    return {"text": content if fits else None, "truncated": not fits}


def _remarks(remarks: Sequence[Remark]) -> list[str]:
    """One line per remark, as many as fit."""
    cells = (f"cell {remark.cell}, " if remark.cell is not None else "" for remark in remarks)
    lines = (
        f"{cell}line {remark.row}: {rendering.short(remark.text)}" for cell, remark in zip(cells, remarks, strict=True)
    )
    return room_for(lines, _PART)
