"""The report for people: the place, the steps that lead there, the consequence and the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from amplint.findings import Applicability, Finding, Note, Position, Severity, Span
from amplint.reports.concise import concise
from amplint.reports.context import Context
from amplint.reports.excerpt import blank, excerpt, marked_rows
from amplint.reports.marks import mark_text
from amplint.reports.places import line, location_text
from amplint.reports.text import visible, wrap

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_INDENT = "  "
_HOW = {
    Applicability.SAFE: "amplint --fix does this",
    Applicability.UNSAFE: "amplint --fix --unsafe-fixes does this; it may change results, so read it first",
}


def full(findings: Sequence[Finding], context: Context) -> str:
    """Each finding as a block of lines, followed by an empty line."""
    return "".join(_block(finding, context).rstrip("\n") + "\n\n" for finding in findings)


def _block(finding: Finding, context: Context) -> str:
    """The lines about `finding`, or its line of the concise format if its source cannot be shown."""
    try:
        return "\n".join(_Block(finding, context).lines())
    except Exception:
        return concise([finding], context)


class _Block:
    def __init__(self, finding: Finding, context: Context) -> None:
        self._finding = finding
        self._context = context
        places = [note.span for note in (*finding.notes, finding.elsewhere) if note]
        rows = [finding.span.end.row + 1, *(span.start.row for span in places)]
        self._digits = len(str(max(rows)))
        self._room = context.width - self._digits - len("    >  | ")

    def lines(self) -> Iterator[str]:
        finding, width = self._finding, self._context.width
        place = self._bold(location_text(finding.filename, finding.span))
        title = self._paint(f"{finding.code} {finding.name}", _COLOURS[finding.severity])
        yield f"{place}: {title} [{finding.severity.label}]"
        yield from wrap(finding.message, width, _INDENT)
        yield from self._source()
        steps = (*finding.notes, *([finding.elsewhere] if finding.elsewhere else []))
        if steps:
            yield self._bold(f"{_INDENT}How it comes about:")
            for number, note in enumerate(steps, 1):
                yield from self._step(number, note)
            yield ""
        if verdict := mark_text(finding.mark):
            yield from self._paragraph("Trace: ", verdict)
        for guessed in finding.guesses:
            yield from self._paragraph("Guess: ", f"{guessed} See {guessed.url}")
        if finding.reason:
            yield from self._paragraph("Why: ", finding.reason)
        if finding.advice:
            yield from self._paragraph("Instead: ", finding.advice)
        if finding.fix:
            how = _HOW[finding.fix.applicability]
            yield from self._paragraph("Fix: ", f"{finding.fix.message.rstrip('.')} ({how}).")

    def _source(self) -> Iterator[str]:
        span = self._finding.span
        rows = marked_rows(span)
        last = max(row for row in rows if row is not None)
        lines = [
            *self._around(span.start.row - 1),
            *(line for row in rows for line in self._marked(row, span)),
            *self._around(last + 1),
        ]
        if lines:
            yield ""
            yield from lines
            yield ""

    def _marked(self, row: int | None, span: Span) -> Iterator[str]:
        if row is None:
            yield self._paint(f"{'...':>{self._digits + 6}}", "blue")
            return
        source = self._context.sources.line(self._finding.filename, row, span.cell)
        if source is None or blank(source):
            return
        text, marks = excerpt(source, row, span, self._room)
        yield self._numbered(row, text, ">")
        if marks:
            colour = _COLOURS[self._finding.severity]
            yield f"{self._paint(' ' * (self._digits + 7) + '|', 'blue')} {self._paint(marks, colour)}"

    def _around(self, row: int) -> Iterator[str]:
        start = Position(row, 1)
        yield from self._plain(Span(start, start, self._finding.cell))

    def _step(self, number: int, note: Note) -> Iterator[str]:
        number_part = f"{_INDENT * 2}{number}. "
        place = f"{visible(note.filename)}, " if note.filename else ""
        head = f"{number_part}{place}{line(note.span)}: "
        yield from wrap(note.message, self._context.width, " " * len(number_part), head)
        yield from self._plain(note.span, note.filename)

    def _plain(self, span: Span, filename: str = "") -> Iterator[str]:
        row = span.start.row
        source = self._context.sources.line(filename or self._finding.filename, row, span.cell)
        if source is not None and not blank(source):
            text, _ = excerpt(source, row, span, self._room)
            yield self._numbered(row, text)

    def _numbered(self, row: int, text: str, mark: str = " ") -> str:
        return f"{self._paint(f'    {mark} {row:>{self._digits}} |', 'blue')} {text}".rstrip()

    def _paragraph(self, label: str, text: str) -> Iterator[str]:
        first, *rest = wrap(text, self._context.width, _INDENT * 2, _INDENT + label)
        yield self._bold(_INDENT + label) + first[len(_INDENT + label) :]
        yield from rest

    def _bold(self, text: str) -> str:
        return click.style(text, bold=True) if self._context.colour else text

    def _paint(self, text: str, colour: str) -> str:
        return click.style(text, fg=colour, bold=True if colour != "blue" else None) if self._context.colour else text
