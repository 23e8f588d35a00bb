"""Text in the passes of a codemod: its tree, and edits that lead to the next text."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence

from amplint.codemods.refusal import Refusal
from amplint.codemods.rows import row_before
from amplint.codemods.scopes import Scopes
from amplint.codemods.surroundings import cached_by_text
from amplint.findings import Edit, Span
from amplint.fixes.splice import locate, splice
from amplint.source.rewrite_lines import Lines, deletions
from amplint.source.source import Source


class Passes:
    """A script in successive passes; `first` is the original, `script` the present one."""

    def __init__(self, first: Script) -> None:
        self.first = self.script = first

    def row(self, row: int) -> int:
        """The row of the first script that corresponds to a row of the present one."""
        return row_before(self.first.text, self.script.text, row)

    @contextlib.contextmanager
    def mapped_refusals(self) -> Iterator[None]:
        """Raise refusals with the rows of the first script."""
        try:
            yield
        except Refusal as refusal:
            remark = refusal.remark(self.script.source)
            raise Refusal(self.row(remark.row), remark.text) from None


class Script(Scopes):
    """The tree of `text`, the content of the file at `path`. Raises SourceError if it is not Python."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(Source(path or "<text>", text, path))
        self.text = text
        self.path = path
        self.lines = Lines(text)

    def apply(self, edits: Iterable[Edit]) -> Script:
        """The script after `edits`, which must not overlap."""
        done = list(edits)
        return Script(splice(self.text, locate(self.lines, done)), self.path) if done else self

    def fresh(self, *wanted: str) -> str:
        """The first of these names that the file does not use; a variant of the first if it uses all."""
        name = self.free(*wanted) or f"{wanted[0]}_"
        return name if name not in self.words else self.fresh(name)

    def free(self, *wanted: str) -> str | None:
        """The first of these names that the file does not use; None if it uses all."""
        return next((name for name in wanted if name not in self.words), None)

    def without(self, items: Sequence[Span], gone: Collection[int]) -> Iterator[Edit]:
        """The edits that delete some of `items` from a list in brackets."""
        for start, end in deletions(self.lines, items, gone, bracketed=True) if gone else ():
            yield Edit(Span(self.lines.position(start), self.lines.position(end)), "")

    def indented(self, rows: Sequence[int], add: str, take: str = "", untouched: Iterable[int] = ()) -> str:
        """The text of `rows` with `take` in the indentation replaced by `add`, except `untouched` and blank rows."""
        kept = set(untouched)
        parts = []
        for row in rows:
            line = self.text[self.lines.start(row) : self.lines.start(row + 1)]
            if row not in kept and line.strip() and line.startswith(take):
                line = add + line[len(take) :]
            parts.append(line)
        return "".join(parts)


@cached_by_text
def parsed(text: str, path: str) -> Script:
    """The script of a text. Raises SourceError if it is not Python."""
    return Script(text, path)
