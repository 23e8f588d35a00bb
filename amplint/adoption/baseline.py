"""Baselines: recorded findings of a project, which are not reported again."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from amplint.engine.diagnostics import ALWAYS_ON, RuleCrashed, UnreadableFile
from amplint.engine.fingerprints import fingerprints, from_root
from amplint.findings import Finding
from amplint.fixes.write import create_file, replace_file
from amplint.records import dataclass
from amplint.source.files import read

_HEADER = (
    "# Known findings. `amplint check --baseline THIS_FILE` leaves them out, --shrink-baseline drops those gone.\n"
)
_SIZE_LIMIT = 100_000_000
_NEVER_KNOWN = frozenset({UnreadableFile.code, RuleCrashed.code})
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")

LineText = Callable[[str, int, int | None], str | None]


class BaselineError(Exception):
    """An unusable baseline; the message is one line for the user."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A recorded finding: file (relative to the baseline's folder, with slashes), rule code and fingerprint."""

    path: str
    code: str
    fingerprint: str


@dataclass(frozen=True)
class Compared:
    """Findings compared with a baseline: the `new` ones, the `known` entries found again, the entries `gone`."""

    new: list[Finding]
    known: frozenset[Entry]
    gone: frozenset[Entry]


@dataclass(frozen=True)
class Scope:
    """What a run covered: absolute paths of files with the codes that were on, and the folders it searched.

    Only an entry in scope can be reported as gone.
    """

    files: dict[str, frozenset[str]]
    folders: tuple[str, ...] = ()

    def covers(self, path: str, code: str) -> bool:
        """Whether the run would have reported `code` in the file at the absolute `path`."""
        if path in self.files:
            return code in self.files[path]
        inside = any(path.startswith(os.path.join(folder, "")) for folder in self.folders)
        return inside and not os.path.lexists(path)


class Baseline:
    """The entries of the baseline file `path`; `raw` is the file's content, None if it does not exist yet."""

    def __init__(self, path: str, entries: Iterable[Entry] = (), raw: bytes | None = None) -> None:
        self.path = os.path.abspath(path)
        self.entries = frozenset(entries)
        self._raw = raw

    @property
    def _folder(self) -> str:
        return os.path.dirname(self.path)

    @classmethod
    def load(cls, path: str) -> Baseline:
        """Read the baseline file `path`.

        Raises FileNotFoundError if it does not exist, BaselineError if it cannot be read or is malformed.
        """
        try:
            raw = read(path, _SIZE_LIMIT)
            text = raw.decode("utf-8")
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as failure:
            why = failure.strerror if isinstance(failure, OSError) and failure.strerror else failure
            raise BaselineError(f"{path}: cannot be read: {why}") from None
        rows = enumerate(text.split("\n"), 1)
        return cls(path, [_entry(path, row, line) for row, line in rows if _is_entry(line)], raw)

    def compare(self, findings: Sequence[Finding], line_text: LineText, scope: Scope) -> Compared:
        """Split `findings` into new and known ones, and list the entries in `scope` that no longer occur.

        A finding located in another file also matches the entry at that location, which exists if both files were
        linted when the baseline was recorded.
        """
        entries = self._entries(findings, line_text)
        there = self._entries([_at_its_place(finding) for finding in findings], line_text)
        new = [
            finding
            for finding, *places in zip(findings, entries, there, strict=True)
            if not may_be_known(finding) or self.entries.isdisjoint(places)
        ]
        known = self.entries.intersection((*entries, *there))
        failed = {entry.path for entry in entries if entry.code in ALWAYS_ON}
        gone = (entry for entry in self.entries - known if entry.path not in failed)
        return Compared(
            new, known, frozenset(entry for entry in gone if scope.covers(self._absolute(entry), entry.code))
        )

    def updated(self, findings: Sequence[Finding], line_text: LineText, gone: Collection[Entry]) -> Baseline:
        """This baseline without the `gone` entries, and with an entry for each new one of `findings`."""
        entries = zip(findings, self._entries(findings, line_text), strict=True)
        there = self._entries([_at_its_place(finding) for finding in findings], line_text)
        added = {
            entry
            for (finding, entry), place in zip(entries, there, strict=True)
            if may_be_known(finding) and self.entries.isdisjoint((entry, place))
        }
        return Baseline(self.path, (self.entries - frozenset(gone)) | added, self._raw)

    def write(self) -> None:
        """Replace the file atomically; no write if nothing changed. Raises OSError."""
        raw = self.text().encode("ascii")
        if self._raw is None:
            create_file(self.path, raw)
        elif raw != self._raw:
            replace_file(self.path, raw, expected=self._raw)

    def text(self) -> str:
        """The file's content: one line per entry, sorted."""
        lines = (json.dumps([entry.path, entry.code, entry.fingerprint]) for entry in sorted(self.entries))
        return _HEADER + "".join(f"{line}\n" for line in lines)

    def _entries(self, findings: Sequence[Finding], line_text: LineText) -> list[Entry]:
        marks = fingerprints(findings, line_text, self._folder)
        return [
            Entry(from_root(finding.filename, self._folder), finding.code, mark)
            for finding, mark in zip(findings, marks, strict=True)
        ]

    def _absolute(self, entry: Entry) -> str:
        return os.path.normpath(os.path.join(self._folder, entry.path))


def may_be_known(finding: Finding) -> bool:
    """Whether a baseline may record the finding: any but those that keep a file from being linted."""
    return finding.code not in _NEVER_KNOWN


def _at_its_place(finding: Finding) -> Finding:
    """`finding` as reported if the file it is located in is linted as well."""
    there = finding.elsewhere
    if there is None:
        return finding
    return replace(finding, filename=there.filename or finding.filename, span=there.span, elsewhere=None)


def _is_entry(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _entry(path: str, row: int, line: str) -> Entry:
    if line.startswith(_CONFLICT):
        raise BaselineError(f"{path}:{row}: a merge conflict; keep the lines of both sides and drop the markers")
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(part, str) and part for part in value):
        raise BaselineError(f"{path}:{row}: not a line of a baseline")
    entry = Entry(*value)
    if "\0" in entry.path:
        raise BaselineError(f"{path}:{row}: not a line of a baseline")
    return entry


def missing(path: str) -> BaselineError:
    """The error for a baseline to compare with that does not exist."""
    return BaselineError(f"{path}: {os.strerror(errno.ENOENT)}; record it with --update-baseline")
