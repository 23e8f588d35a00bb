"""Findings as JSON values, for the cache and reports, in the shape of ruff's."""

from __future__ import annotations

from typing import Any

from amplint.claims import Claim, Sign
from amplint.findings import Applicability, Edit, Finding, Fix, Guessed, Note, Position, Severity, Span


def to_record(finding: Finding) -> dict[str, Any]:
    """`finding` as a JSON object."""
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.label,
        "message": finding.message,
        "filename": finding.filename,
        **_place(finding.span),
        "reason": finding.reason,
        "advice": finding.advice,
        "notes": [_note(note) for note in finding.notes],
        "elsewhere": _note(finding.elsewhere) if finding.elsewhere else None,
        "fix": _fix(finding.fix) if finding.fix else None,
        "claims": [_claim(claim) for claim in finding.claims],
        "shown": _note(finding.shown) if finding.shown else None,
        "guesses": [_guessed(guessed) for guessed in finding.guesses],
    }


def from_record(record: dict[str, Any], filename: str) -> Finding:
    """The finding that `to_record` wrote, with `filename` as its file.

    Raises KeyError or TypeError on anything else.
    """
    fix = record["fix"]
    return Finding(
        code=record["code"],
        name=record["name"],
        severity=Severity[record["severity"].upper()],
        message=record["message"],
        filename=filename,
        span=_span(record),
        reason=record["reason"],
        advice=record["advice"],
        notes=tuple(_read_note(note) for note in record["notes"]),
        elsewhere=_read_note(record["elsewhere"]) if record["elsewhere"] else None,
        fix=fix
        and Fix(
            message=fix["message"],
            edits=tuple(Edit(_span(edit), edit["content"]) for edit in fix["edits"]),
            applicability=Applicability(fix["applicability"]),
            imports=tuple(fix["imports"]),
        ),
        claims=tuple(_read_claim(claim) for claim in record["claims"]),
        shown=_read_note(record["shown"]) if record["shown"] else None,
        guesses=tuple(Guessed(guessed["name"], guessed["meaning"]) for guessed in record["guesses"]),
    )


def _note(note: Note) -> dict[str, Any]:
    return {"message": note.message, "filename": note.filename or None, **_place(note.span)}


def _read_note(record: dict[str, Any]) -> Note:
    return Note(record["message"], _span(record), record["filename"] or "")


def _claim(claim: Claim) -> dict[str, Any]:
    return {"sign": claim.sign.value, "dtypes": claim.dtypes, "texts": claim.texts, "ops": claim.ops}


def _read_claim(record: dict[str, Any]) -> Claim:
    return Claim(Sign(record["sign"]), tuple(record["dtypes"]), tuple(record["texts"]), tuple(record["ops"]))


def _guessed(guessed: Guessed) -> dict[str, Any]:
    return {"name": guessed.name, "meaning": guessed.meaning, "message": str(guessed), "url": guessed.url}


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "message": fix.message,
        "imports": list(fix.imports),
        "edits": [{"content": edit.content, **_place(edit.span)} for edit in fix.edits],
    }


def _place(span: Span) -> dict[str, Any]:
    return {
        "cell": span.cell,
        "location": {"row": span.start.row, "column": span.start.column},
        "end_location": {"row": span.end.row, "column": span.end.column},
    }


def _span(record: dict[str, Any]) -> Span:
    start, end = record["location"], record["end_location"]
    return Span(Position(start["row"], start["column"]), Position(end["row"], end["column"]), record["cell"])
