"""What is linted of a file: its Python text, and the way back to the file."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import replace

from amplint.findings import Edit, Finding, Fix, Note, Position, Span
from amplint.records import dataclass
from amplint.source.encoding import decode, rewritten
from amplint.source.imports import imports


@dataclass(frozen=True)
class Problem:
    """A part of the file that is not Python: where in the text, and why."""

    position: Position
    message: str


class Page:
    """A Python file, all of which is linted.

    `raw` is the text to lint, as bytes. In what else a file holds, which is hidden from the analysis, `words` are the
    names that occur, and `problems` tell of what should be Python and is not.
    """

    problems: tuple[Problem, ...] = ()
    words: Collection[str] = ()

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    @property
    def text(self) -> str:
        """The text to lint and to edit. Raises SourceError."""
        return self._decoded[0]

    @functools.cached_property
    def _decoded(self) -> tuple[str, str]:
        return decode(self.raw)

    @property
    def refusal(self) -> str:
        """Why `restored` refuses a text."""
        return f"the result cannot be written in {self._decoded[1]}"

    def loses(self, text: str) -> bool:
        """Whether `text` lacks an import, as it was, whose name occurs in what is hidden."""
        before, after = (set(imports(each)) for each in (self.text, text))
        return any(one.bound in self.words for one in before - after)

    def restored(self, text: str) -> bytes | None:
        """The file once it holds `text`; None where it cannot, or where an edit has reached what is hidden."""
        return rewritten(self.raw, text)

    def place(self, span: Span) -> Span | None:
        """Where `span` of the text is in the file; None where it is in no one place there."""
        return span

    def may_edit(self, span: Span) -> bool:
        """Whether nothing in `span` is hidden."""
        return True

    def placed(self, finding: Finding) -> Finding:
        """`finding` about the text as one about the file, without a fix that the file cannot take."""
        return replace(
            finding,
            span=self.near(finding.span),
            notes=tuple(map(self._note, finding.notes)),
            fix=finding.fix and self._fix(finding.fix),
            elsewhere=finding.elsewhere and self._note(finding.elsewhere),
            shown=finding.shown and self._note(finding.shown),
        )

    def near(self, span: Span) -> Span:
        """Where `span` of the text is in the file, or at least its start."""
        return self.place(span) or self.place(Span(span.start, span.start)) or span

    def _fix(self, fix: Fix) -> Fix | None:
        edits = tuple(
            Edit(place, edit.content)
            for edit in fix.edits
            if self.may_edit(edit.span) and (place := self.place(edit.span)) is not None
        )
        return replace(fix, edits=edits) if len(edits) == len(fix.edits) else None

    def _note(self, note: Note) -> Note:
        return note if note.filename else replace(note, span=self.near(note.span))
