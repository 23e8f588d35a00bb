"""Findings in the protocol's types: diagnostics and hover pages."""

from __future__ import annotations

import os

from lsprotocol import types
from pygls import uris

from amplint.findings import Finding, Note, Severity
from amplint.reports.markdown import literal
from amplint.reports.text import one_line
from amplint.rule import Registry
from amplint.server.documents import Document
from amplint.server.texts import Text
from amplint.source.encoding import shown_text
from amplint.source.files import read

SOURCE = "amplint"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}


def diagnostic(finding: Finding, document: Document, registry: Registry) -> types.Diagnostic:
    """`finding` in `document`, with the steps that lead to it."""
    rule = registry.rules.get(finding.code)
    said = (finding.message, finding.reason, finding.advice, *map(str, finding.guesses))
    related = [_related(note, document) for note in finding.notes]
    return types.Diagnostic(
        range=document.range(finding.span),
        message="\n".join(one_line(line) for line in said if line),
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=types.CodeDescription(rule.url()) if rule else None,
        source=SOURCE,
        related_information=related,
    )


def hover(finding: Finding, document: Document, registry: Registry) -> types.Hover:
    """The text of `finding`, and the page of its rule."""
    rule = registry.rules.get(finding.code)
    said = [f"**{finding.severity.label}** {finding.code}: {literal(finding.message)}"]
    said += [literal(line) for line in (finding.reason, finding.advice, *map(str, finding.guesses)) if line]
    page = ["---", rule.page(), f"<{rule.url()}>"] if rule else []
    value = "\n\n".join([*said, *page])
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, value), document.range(finding.span))


def _related(note: Note, document: Document) -> types.DiagnosticRelatedInformation:
    """A step on the path to a finding; in another file, columns refer to the text on disk."""
    if note.filename and os.path.abspath(note.filename) != document.path:
        path = os.path.abspath(note.filename)
        text = Text(_shown(path), document.parts[0].text.encoding)
        place = types.Range(text.position(note.span.start), text.position(note.span.end))
        location = types.Location(uris.from_fs_path(path) or "", place)
    else:
        part = document.part(note.span)
        location = types.Location(part.uri if part else document.uri, document.range(note.span))
    return types.DiagnosticRelatedInformation(location, one_line(note.message))


def _shown(path: str) -> str:
    try:
        return shown_text(read(path))
    except OSError:
        return ""
