"""Findings of earlier runs, keyed by content, rules and versions; an unusable cache is silently no cache."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Set
from pathlib import Path

import amplint
from amplint.engine.analyse import Analysis
from amplint.engine.diagnostics import CutShort, RuleCrashed
from amplint.engine.modules import Answers
from amplint.engine.records import from_record, to_record
from amplint.findings import Finding
from amplint.rule import Rule
from amplint.torchlib.versions import Wanted

_PASSING = frozenset({RuleCrashed.code, CutShort.code})
"""What another run may not find."""


class Cache:
    """Findings by key: of this run, and, with a `folder`, of earlier runs that stored theirs there."""

    def __init__(self, folder: Path | None) -> None:
        self._new: dict[str, str] = {}
        self._store = None
        if folder is not None:
            from amplint.engine.store import Store

            with contextlib.suppress(OSError, sqlite3.Error, MemoryError):
                self._store = Store(folder)

    def key(
        self,
        raw: bytes,
        rules: tuple[type[Rule], ...],
        folder: str = "",
        torch: str | None = None,
        asked: Set[str] = frozenset(),
        libraries: tuple[Wanted, ...] = (),
    ) -> str:
        """The key for the findings of `rules` in a file with the bytes `raw`, under these versions of libraries.

        `folder` is the file's folder, since neighbouring files can matter; `asked` are the explicitly selected codes.
        """
        environment = _environment(rules) if self._store is not None else _codes(rules)
        digest = hashlib.blake2b(environment, digest_size=20)
        versions = [f"{wanted} {wanted.name}" for wanted in libraries]
        digest.update(f"{torch}\n{sorted(asked)}\n{versions}\n".encode())
        digest.update(raw)
        digest.update(os.fsencode(folder))
        return digest.hexdigest()

    def get(
        self, key: str, filename: str, holds: Callable[[Answers], bool], folder: str = "", *, stored: bool = True
    ) -> list[Finding] | None:
        """The findings stored under `key`, with `filename` as their file; None if there are none or they are stale.

        `holds` decides whether the analysis' queries about other files still have the same answers. Notes may refer to
        those files only, by paths relative to the file's `folder`. Without `stored`, only findings of this run count.
        """
        value = self._new.get(key)
        if value is None and stored and self._store is not None:
            value = self._store.get(key)
        if value is None:
            return None
        try:
            kept = json.loads(value)
            if not holds(kept["asked"]):
                return None
            findings = [from_record(record, filename) for record in kept["findings"]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
            return None
        notes = (note for finding in findings for note in (*finding.notes, finding.elsewhere, finding.shown) if note)
        files = {os.path.normpath(os.path.join(folder, note.filename)) for note in notes if note.filename}
        return findings if not files or files <= _places(kept["asked"]) else None

    def put(self, key: str, analysis: Analysis) -> None:
        """Store the findings under `key`, unless the analysis failed or was cut short."""
        if not any(finding.code in _PASSING for finding in analysis.findings):
            findings = [to_record(finding) for finding in analysis.findings]
            self._new[key] = json.dumps({"findings": findings, "asked": analysis.asked})

    def close(self) -> None:
        """Write the new entries."""
        if self._store is not None:
            with contextlib.suppress(OSError, sqlite3.Error, MemoryError):
                self._store.close(self._new)
            self._store = None


def _places(asked: Answers) -> set[str]:
    return {place for questions in asked.values() for place, _ in questions.values()}


@functools.cache
def _codes(rules: tuple[type[Rule], ...]) -> bytes:
    """What tells rules apart within a run."""
    return "\n".join(rule.code for rule in rules).encode()


@functools.cache
def _environment(rules: tuple[type[Rule], ...]) -> bytes:
    """A digest of what findings depend on besides the file: rules, versions, size and mtime of each module."""
    places = {os.path.dirname(amplint.__file__)}
    for rule in rules:
        file = getattr(sys.modules.get(rule.__module__), "__file__", None) or ""
        places.add(os.path.dirname(file) if "." in rule.__module__ else file)
    parts = [amplint.__version__, sys.version, *_libcst(), *(rule.code for rule in rules)]
    for place in sorted(places):
        parts += _modules(place)
    return hashlib.blake2b("\n".join(parts).encode("utf-8", "surrogateescape")).digest()


@functools.cache
def _libcst() -> list[str]:
    """Size and mtime of libcst's native parser; empty if it is absent, as in the site's playground."""
    found = importlib.util.find_spec("libcst")
    place = os.path.dirname(found.origin) if found is not None and found.origin else ""
    with contextlib.suppress(OSError):
        return [
            line for entry in os.scandir(place) if entry.name.startswith("native.") for line in _modules(entry.path)
        ]
    return []


@functools.cache
def _modules(place: str) -> list[str]:
    """Path, size and mtime of the module `place`, or of every module and table in the folder `place`."""
    with contextlib.suppress(OSError):
        return _modules_in(place) if os.path.isdir(place) else [_line(place, os.stat(place))]
    return []


def _modules_in(folder: str) -> list[str]:
    lines: list[str] = []
    with contextlib.suppress(OSError):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.name.endswith((".py", ".json")):
                lines.append(_line(entry.path, entry.stat()))
            elif entry.name != "__pycache__" and entry.is_dir():
                lines += _modules_in(entry.path)
    return lines


def _line(path: str, status: os.stat_result) -> str:
    return f"{path}:{status.st_size}:{status.st_mtime_ns}"
