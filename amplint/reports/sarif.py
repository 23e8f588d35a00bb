"""SARIF 2.1.0, within the limits of GitHub's code scanning."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from amplint import __version__
from amplint.engine.diagnostics import RuleCrashed
from amplint.engine.fingerprints import fingerprints, from_root
from amplint.findings import Applicability, Finding, Fix, Note, Severity, Span
from amplint.fixes.whole import whole_edits
from amplint.reports.context import Context
from amplint.reports.places import file_rows
from amplint.reports.prose import paragraphs
from amplint.reports.text import json_text, visible_lines
from amplint.rule import Rule

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_HOME = "https://amplint.github.io"
_ROOT = "SRCROOT"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_PROBLEMS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "recommendation"}
_TAGS = ("mixed-precision", "pytorch")

MOST_RESULTS = 25_000
"""Results that GitHub takes; it shows 5,000 of them."""
MOST_LOCATIONS = 100
"""Steps of a code flow and related locations; of locations GitHub shows as many, and takes 1,000."""
LONGEST_DESCRIPTION = 1024
"""Characters that GitHub takes of a rule's descriptions."""


def sarif(findings: Sequence[Finding], context: Context) -> str:
    """A log with one run; paths are relative to the current folder, `SRCROOT`.

    Of more than 25,000 findings the most severe are kept, and the run states the number omitted.
    """
    marks = fingerprints(findings, context.sources.line)
    kept = sorted(sorted(range(len(findings)), key=lambda index: -findings[index].severity)[:MOST_RESULTS])
    codes = list(dict.fromkeys(finding.code for finding in findings))
    run = {
        "tool": {
            "driver": {
                "name": "amplint",
                "version": __version__,
                "semanticVersion": __version__,
                "informationUri": _HOME,
                "rules": [_rule(code, findings, context) for code in codes],
            }
        },
        "invocations": [_invocation(findings)],
        "columnKind": "unicodeCodePoints",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The folder in which amplint ran."}}},
        "results": [
            _result(findings[index], codes.index(findings[index].code), marks[index], context) for index in kept
        ],
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _invocation(findings: Sequence[Finding]) -> dict[str, Any]:
    invocation: dict[str, Any] = {"executionSuccessful": all(each.code != RuleCrashed.code for each in findings)}
    missing = len(findings) - MOST_RESULTS
    if missing > 0:
        text = f"{missing} findings are not in this report, which holds the {MOST_RESULTS} most severe ones."
        invocation["toolExecutionNotifications"] = [{"level": "warning", "message": {"text": text}}]
    return invocation


def _rule(code: str, findings: Sequence[Finding], context: Context) -> dict[str, Any]:
    rule = context.rules.get(code)
    if rule is None:
        return {"id": code, "name": next(finding.name for finding in findings if finding.code == code)}
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": _cut(rule.summary())},
        "fullDescription": {"text": _cut(_why(rule))},
        "help": {"text": rule.page(), "markdown": rule.page()},
        "helpUri": rule.url(),
        "defaultConfiguration": {"enabled": rule.default, "level": _LEVELS[rule.severity]},
        "properties": {"tags": list(_TAGS), "problem.severity": _PROBLEMS[rule.severity]},
    }


def _why(rule: type[Rule]) -> str:
    """The summary and the first section of the page as one paragraph."""
    sections = re.split(r"^## .*\n", rule.page(), maxsplit=2, flags=re.MULTILINE)
    return " ".join(" ".join([rule.summary(), *sections[1:2]]).split())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_DESCRIPTION else text[: LONGEST_DESCRIPTION - 3] + "..."


def _result(finding: Finding, index: int, fingerprint: str, context: Context) -> dict[str, Any]:
    steps = [*finding.notes, *([finding.elsewhere] if finding.elsewhere else [])][:MOST_LOCATIONS]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": _message("\n".join(paragraphs(finding)))},
        "locations": [{"physicalLocation": _place(finding.filename, finding.span, context)}],
        "partialFingerprints": {"amplint/v1": fingerprint},
    }
    if steps:
        locations = [_location(note, finding, context) for note in steps]
        last = {**result["locations"][0], "message": {"text": _message(finding.message)}}
        flow = [{"location": location} for location in [*locations[: MOST_LOCATIONS - 1], last]]
        result["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
        result["relatedLocations"] = [{"id": number, **location} for number, location in enumerate(locations, 1)]
    if finding.fix and (fix := _fix(finding, finding.fix, context)):
        result["fixes"] = [fix]
    return result


def _fix(finding: Finding, fix: Fix, context: Context) -> dict[str, Any] | None:
    edits = whole_edits(context.sources.text(finding.filename), fix) if finding.cell is None else ()
    if not edits:
        return None
    unsafe = "" if fix.applicability is Applicability.SAFE else " (unsafe: it may change results)"
    replacements = [{"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.content}} for edit in edits]
    change = {"artifactLocation": _artifact(finding.filename), "replacements": replacements}
    description = {"text": _message(f"{fix.message.rstrip('.')}{unsafe}.")}
    return {"description": description, "artifactChanges": [change]}


def _location(note: Note, finding: Finding, context: Context) -> dict[str, Any]:
    place = _place(note.filename or finding.filename, note.span, context)
    return {"physicalLocation": place, "message": {"text": _message(note.message)}}


def _place(filename: str, span: Span, context: Context) -> dict[str, Any]:
    if span.cell is None:
        return {"artifactLocation": _artifact(filename), "region": _region(span)}
    first, last = file_rows(filename, span, context.sources)
    return {"artifactLocation": _artifact(filename), "region": {"startLine": first, "endLine": last}}


def _artifact(filename: str) -> dict[str, str]:
    path = from_root(filename)
    if os.path.isabs(path):
        return {"uri": f"file:///{quote(path.lstrip('/').encode('utf-8', 'surrogatepass'), safe='/:')}"}
    uri = quote(path.encode("utf-8", "surrogatepass"))
    return {"uri": f"./{uri}" if ":" in path.partition("/")[0] else uri, "uriBaseId": _ROOT}


def _region(span: Span) -> dict[str, int]:
    start, end = span.start, span.end
    return {"startLine": start.row, "startColumn": start.column, "endLine": end.row, "endColumn": end.column}


def _message(text: str) -> str:
    """`text` with brackets escaped, since `[words](address)` would be a link."""
    return visible_lines(text).replace("](", "\\](")
