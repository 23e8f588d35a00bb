"""Text in the passes of a codemod: its tree, and edits that lead to the next text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amplint.source.rewrite_lines import Lines
from amplint.source.source import Source
from amplint.training.scopes import Scopes
from amplint.training.surroundings import cached_by_text


class Script(Scopes):
    """The tree of `text`, the content of the file at `path`. Raises SourceError if it is not Python."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(Source(path or "<text>", text, path))
        self.text = text
        self.path = path
        self.lines = Lines(text)

    def fresh(self, *wanted: str) -> str:
        """The first of these names that the file does not use; a variant of the first if it uses all."""
        name = self.free(*wanted) or f"{wanted[0]}_"
        return name if name not in self.words else self.fresh(name)

    def free(self, *wanted: str) -> str | None:
        """The first of these names that the file does not use; None if it uses all."""
        return next((name for name in wanted if name not in self.words), None)

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
