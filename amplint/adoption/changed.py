"""Lines changed since a commit, and the findings that they affect."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from amplint.adoption.git import Blob, GitError, Repository, top_of
from amplint.engine.diagnostics import RuleCrashed, SyntaxErrorFound, UnreadableFile
from amplint.engine.discover import SUFFIXES
from amplint.findings import Finding, Span
from amplint.notebooks.reading import cells_of
from amplint.regex import regex
from amplint.source.encoding import shown_text
from amplint.source.files import read

_ALWAYS_SHOWN = frozenset({UnreadableFile.code, RuleCrashed.code})
_NEWLINE = regex(r"\r\n|\r|\n")
_MOST_PAIRS = 100_000
"""Pairs of a file that is gone and a new one, above which none counts as renamed."""
_ALIKE = 0.5
"""The share of lines in common from which on a file counts as renamed."""

_Row = tuple[int | None, int]
"""The cell of a notebook and a row in it."""


class Changes:
    """Changes since the merge base of `revision` and HEAD.

    `given` maps file names to content that is not on disk, such as standard input.
    """

    def __init__(self, revision: str, given: Mapping[str, bytes]) -> None:
        self._revision = revision
        self._given = given
        self._bases: dict[str, _Base] = {}
        self._tops: dict[str, str | None] = {}
        self._rows: dict[str, frozenset[_Row]] = {}

    def concern(self, findings: Iterable[Finding], paths: Iterable[str]) -> list[Finding]:
        """The `findings` whose own line, one of whose steps, or whose location in another file has changed.

        `paths` are the linted files, among which renamed files are looked for. Raises GitError.
        """
        real = [os.path.realpath(path) for path in paths]
        return [finding for finding in findings if self._concerns(finding, real)]

    def require(self, folder: str) -> None:
        """Check that the revision exists in the repository of `folder`. Raises GitError."""
        self._base(os.path.realpath(folder), folder)

    def _concerns(self, finding: Finding, paths: Sequence[str]) -> bool:
        if finding.code in _ALWAYS_SHOWN:
            return True
        if finding.code == SyntaxErrorFound.code:
            return bool(self._changed(finding.filename, paths))
        notes = (note for note in (*finding.notes, finding.elsewhere) if note)
        places = [(finding.filename, finding.span), *((note.filename or finding.filename, note.span) for note in notes)]
        return any(not self._changed(filename, paths).isdisjoint(_rows_of(span)) for filename, span in places)

    def _changed(self, filename: str, paths: Sequence[str]) -> frozenset[_Row]:
        path = os.path.realpath(filename)
        if path not in self._rows:
            try:
                new = _lines(path, self._given[filename] if filename in self._given else read(path))
            except OSError:
                new = {}
            old = self._base(os.path.dirname(path), filename).before(path, paths)
            self._rows[path] = frozenset(_changed_rows(old, new))
        return self._rows[path]

    def _base(self, folder: str, shown: str) -> _Base:
        if folder not in self._tops:
            self._tops[folder] = top_of(folder)
        top = self._tops[folder]
        if top is None:
            raise GitError(f"{shown} lies in no git repository, so nothing can be told of what has changed")
        if top not in self._bases:
            self._bases[top] = _Base(Repository(top), self._revision)
        return self._bases[top]


class _Base:
    """The files of the merge base of `revision` and HEAD. Raises GitError."""

    def __init__(self, repository: Repository, revision: str) -> None:
        self._repository = repository
        blobs = repository.blobs(repository.base(revision))
        self._blobs = {blob.path: blob for blob in blobs if blob.path.endswith(SUFFIXES)}
        self._renamed: dict[str, Blob] | None = None

    def before(self, path: str, paths: Iterable[str]) -> list[str]:
        """The old lines of the file at `path`: of the same name, else of a deleted file that was renamed to it."""
        blob = self._blobs.get(self._name(path))
        if blob is None:
            if self._renamed is None:
                self._renamed = self._renames(paths)
            blob = self._renamed.get(path)
        return [] if blob is None else self._content(blob)

    def _renames(self, paths: Iterable[str]) -> dict[str, Blob]:
        """The renames to files of `paths`: deleted and new files paired greedily, the most similar first."""
        top = self._repository.top
        gone = [blob for blob in self._blobs.values() if not os.path.lexists(os.path.join(top, blob.path))]
        new = [path for path in paths if path.startswith(os.path.join(top, "")) and self._name(path) not in self._blobs]
        if not 0 < len(gone) * len(new) <= _MOST_PAIRS:
            return {}
        before = [(blob, Counter(self._content(blob))) for blob in gone]
        after = [(path, Counter(_lines_of_file(path))) for path in new]
        pairs = sorted(
            (-alike, os.path.basename(path) != os.path.basename(blob.path), path, blob.path)
            for path, lines in after
            for blob, old in before
            if path.endswith(os.path.splitext(blob.path)[1])
            if (alike := (old & lines).total() / max(old.total(), lines.total(), 1)) > _ALIKE
        )
        renamed: dict[str, Blob] = {}
        taken: set[str] = set()
        for _, _, path, old_path in pairs:
            if path not in renamed and old_path not in taken:
                renamed[path] = self._blobs[old_path]
                taken.add(old_path)
        return renamed

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self._repository.top).replace(os.sep, "/")

    def _content(self, blob: Blob) -> list[str]:
        return [*_lines(blob.path, self._repository.content(blob)).values()]


def _lines_of_file(path: str) -> list[str]:
    try:
        return [*_lines(path, read(path)).values()]
    except OSError:
        return []


def _lines(path: str, raw: bytes) -> dict[_Row, str]:
    """The lines of a Python file, or of all code cells of a notebook, by position and in order."""
    cells = cells_of(path, raw)
    texts = [(None, shown_text(raw))] if cells is None else [*cells.items()]
    return {(cell, row): text for cell, whole in texts for row, text in enumerate(_NEWLINE.split(whole), 1)}


def _changed_rows(old: Sequence[str], lines: dict[_Row, str]) -> Iterator[_Row]:
    """The positions of `lines` that differ from `old`; for a deletion, the lines before and after it."""
    new, places = [*lines.values()], [*lines]
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    left = shorter - head
    tail = next((at for at in range(left) if old[-1 - at] != new[-1 - at]), left)
    matcher = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail])
    for kind, _, _, start, end in matcher.get_opcodes():
        if kind == "delete":
            start, end = start - 1, end + 1
        if kind != "equal":
            yield from places[max(head + start, 0) : head + end]


def _rows_of(span: Span) -> Iterator[_Row]:
    yield from ((span.cell, row) for row in range(span.start.row, span.end.row + 1))
