"""Reviewdog's diagnostic format, with fixes as suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amplint.engine.fingerprints import from_root
from amplint.findings import Finding, Fix, Position, Severity, Span
from amplint.fixes.splice import locate, splice
from amplint.fixes.whole import whole_edits
from amplint.reports.context import Context
from amplint.reports.places import file_rows
from amplint.reports.prose import paragraphs
from amplint.reports.text import json_text, visible_lines
from amplint.source.rewrite_lines import Lines

_LEVELS = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}
MOST_ROWS = 30
"""Rows that a suggestion may take the place of: a comment on a pull request shows them all."""


def rdjson(findings: Sequence[Finding], context: Context) -> str:
    """One `DiagnosticResult`; columns count bytes of UTF-8, and paths are relative to the current folder."""
    texts = _Texts(context)
    result = {
        "source": {"name": "amplint", "url": "https://amplint.github.io"},
        "diagnostics": [_diagnostic(finding, texts, context) for finding in findings],
    }
    return json_text(result, indent=2) + "\n"


class _Texts:
    """The lines of the reported files."""

    def __init__(self, context: Context) -> None:
        self._sources = context.sources
        self._lines: dict[str, Lines] = {}

    def of(self, filename: str) -> Lines:
        """The lines of a file."""
        if filename not in self._lines:
            self._lines[filename] = Lines(self._sources.text(filename))
        return self._lines[filename]

    def location(self, filename: str, span: Span) -> dict[str, Any]:
        """A place in a file; in a notebook only lines of its JSON."""
        if span.cell is None:
            return {"path": from_root(filename), "range": _range(self.of(filename), span)}
        first, last = file_rows(filename, span, self._sources)
        return {"path": from_root(filename), "range": {"start": {"line": first}, "end": {"line": last}}}


def _diagnostic(finding: Finding, texts: _Texts, context: Context) -> dict[str, Any]:
    rule = context.rules.get(finding.code)
    lines = texts.of(finding.filename)
    steps = [
        {
            "message": visible_lines(note.message),
            "location": texts.location(note.filename or finding.filename, note.span),
        }
        for note in (*finding.notes, *([finding.elsewhere] if finding.elsewhere else []))
    ]
    suggestion = _suggestion(lines, finding.fix) if finding.fix and finding.cell is None else None
    return {
        "message": visible_lines("\n".join(paragraphs(finding, f"{finding.name}: "))),
        "location": texts.location(finding.filename, finding.span),
        "severity": _LEVELS[finding.severity],
        "code": {"value": finding.code, **({"url": rule.url()} if rule else {})},
        **({"related_locations": steps} if steps else {}),
        **({"suggestions": [suggestion]} if suggestion else {}),
    }


def _suggestion(lines: Lines, fix: Fix) -> dict[str, Any] | None:
    """All edits of `fix` as one; None if it cannot be applied or spans too many lines."""
    edits = whole_edits(lines.text, fix)
    if not edits:
        return None
    span = Span(edits[0].span.start, edits[-1].span.end)
    if span.end.row - span.start.row >= MOST_ROWS:
        return None
    start, end = lines.range(span)
    inner = [(first - start, last - start, content) for first, last, content in locate(lines, edits)]
    return {"range": _range(lines, span), "text": splice(lines.text[start:end], inner)}


def _range(lines: Lines, span: Span) -> dict[str, Any]:
    return {"start": _position(lines, span.start), "end": _position(lines, span.end)}


def _position(lines: Lines, position: Position) -> dict[str, int]:
    if lines.text.isascii():  # in one pass, since a line can be long
        return {"line": position.row, "column": position.column}
    before = lines.line(position.row)[: position.column - 1] if position.row <= len(lines) else ""
    beyond = max(0, position.column - 1 - len(before))
    return {"line": position.row, "column": len(before.encode("utf-8", "surrogatepass")) + beyond + 1}
