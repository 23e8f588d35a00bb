"""What the playground's worker asks amplint; it runs under Pyodide, from the archive that `docs/hooks.py` writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import amplint
from amplint import Finding, Settings

SETTINGS = Settings(root=Path("/"))


def shown(finding: Finding) -> str:
    """A finding as text: where, what, the steps to it, why, and what to do."""
    start = finding.span.start
    lines = [f"line {start.row}, column {start.column}: {finding.code} {finding.name} [{finding.severity.label}]"]
    lines.append(f"  {finding.message}")
    lines += [f"  {number}. line {note.span.start.row}: {note.message}" for number, note in enumerate(finding.notes, 1)]
    told = [("Why", finding.reason), ("Instead", finding.advice)]
    lines += [f"  {word}: {text}" for word, text in told if text]
    if finding.fix is not None:
        lines.append(f"  Fix ({finding.fix.applicability.value}): {finding.fix.message}")
    return "\n".join(lines)


def listed(findings: list[Finding]) -> str:
    """Findings as text."""
    return "\n\n".join(map(shown, findings)) or "Nothing found."


def lint(code: str) -> dict[str, str]:
    """What is found in `code`."""
    findings = amplint.check(code, SETTINGS)
    return {"text": listed(findings), "told": f"Findings: {len(findings)}."}


def fix(code: str) -> dict[str, str]:
    """`code` with its safe fixes, and what is left."""
    repaired = amplint.fix(code, SETTINGS)
    return {"code": repaired.after.decode(), "text": listed(repaired.findings), "told": f"Fixed: {repaired.fixed}."}


def convert(code: str) -> dict[str, str]:
    """`code` in mixed precision, or why not."""
    converted = amplint.convert(code, to="amp", settings=SETTINGS)
    remarks = [*converted.done, *converted.reasons, *converted.checks]
    text = "\n".join(f"line {remark.row}: {remark.text}" for remark in remarks)
    changed = converted.after != converted.before
    told = "Converted." if changed else "Left as it is."
    return {"code": converted.after.decode(), "text": text or "There is nothing to convert.", "told": told}


QUESTIONS: dict[str, Callable[[str], dict[str, str]]] = {"lint": lint, "fix": fix, "convert": convert}


def answer(question: str, code: str) -> str:
    """The answer to a question as JSON: `text`, `told`, and `code` where it is replaced."""
    return json.dumps(QUESTIONS[question](code))
