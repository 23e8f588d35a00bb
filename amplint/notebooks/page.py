"""The lintable Python text of a file, and the mapping back to the file."""

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
    """A part of the file that should be Python and is not: its position in the text, and the error."""

    position: Position
    message: str


class Page:
    """A Python file, linted as a whole.

    `raw` is the text to lint, as bytes. For files with hidden parts, `words` are the names that occur in these, and
    `problems` the parts that should be Python and are not.
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
        """The reason for which `restored` refuses a text."""
        return f"the result cannot be written in {self._decoded[1]}"

    def loses(self, text: str) -> bool:
        """Whether `text` lacks an original import whose name occurs in the hidden parts."""
        before, after = (set(imports(each)) for each in (self.text, text))
        return any(one.bound in self.words for one in before - after)

    def restored(self, text: str) -> bytes | None:
        """The file with `text` as its code; None if that is impossible or an edit reaches a hidden part."""
        return rewritten(self.raw, text)

    def place(self, span: Span) -> Span | None:
        """The position in the file of `span` of the text; None if it has no single one."""
        return span

    def may_edit(self, span: Span) -> bool:
        """Whether `span` contains nothing hidden."""
        return True

    def placed(self, finding: Finding) -> Finding:
        """`finding` with positions in the file, and without a fix that the file cannot take."""
        return replace(
            finding,
            span=self.approximate_position(finding.span),
            notes=tuple(map(self._note, finding.notes)),
            fix=finding.fix and self._fix(finding.fix),
            elsewhere=finding.elsewhere and self._note(finding.elsewhere),
            shown=finding.shown and self._note(finding.shown),
        )

    def approximate_position(self, span: Span) -> Span:
        """The position in the file of `span` of the text, or at least of its start."""
        return self.place(span) or self.place(Span(span.start, span.start)) or span

    def _fix(self, fix: Fix) -> Fix | None:
        edits = tuple(
            Edit(place, edit.content)
            for edit in fix.edits
            if self.may_edit(edit.span) and (place := self.place(edit.span)) is not None
        )
        return replace(fix, edits=edits) if len(edits) == len(fix.edits) else None

    def _note(self, note: Note) -> Note:
        return note if note.filename else replace(note, span=self.approximate_position(note.span))
