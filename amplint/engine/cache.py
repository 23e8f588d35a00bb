"""Findings of earlier runs, by content, rules and version; a cache that cannot be used is silently no cache."""

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
from amplint.engine.records import from_record, to_record
from amplint.findings import Finding
from amplint.rule import Rule
from amplint.torchlib.versions import Wanted

_PASSING = frozenset({RuleCrashed.code, CutShort.code})
"""What another run may not find."""


class Cache:
    """What is known already: from this run, and with a `folder` from earlier runs that kept their findings there."""

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
        """Names the findings of `rules` in a file with the bytes `raw`, which is for these versions of libraries.

        `folder` is where it lies, since what is there can matter, and `asked` are the codes that were selected.
        """
        digest = hashlib.blake2b(_environment(rules), digest_size=20)
        versions = [f"{wanted} {wanted.name}" for wanted in libraries]
        digest.update(f"{torch}\n{sorted(asked)}\n{versions}\n".encode())
        digest.update(raw)
        digest.update(os.fsencode(folder))
        return digest.hexdigest()

    def get(
        self, key: str, filename: str, holds: Callable[[list[list[str]]], bool], *, stored: bool = True
    ) -> list[Finding] | None:
        """The findings kept under `key`, said of `filename`; None when there are none to be had.

        `holds` is asked whether what the analysis learned of other files is still so. Notes may lead to these files
        and to no others. Unless `stored`, only what this run itself has found counts.
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
        reached = {"", *(place for _, _, place, _ in kept["asked"])}
        notes = (note for finding in findings for note in (*finding.notes, finding.elsewhere, finding.shown) if note)
        return findings if all(note.filename in reached for note in notes) else None

    def put(self, key: str, analysis: Analysis) -> None:
        """Keep what was found under `key`, unless the analysis failed or was cut short."""
        if not any(finding.code in _PASSING for finding in analysis.findings):
            findings = [to_record(finding) for finding in analysis.findings]
            self._new[key] = json.dumps({"findings": findings, "asked": analysis.asked})

    def close(self) -> None:
        """Write what is new."""
        if self._store is not None:
            with contextlib.suppress(OSError, sqlite3.Error, MemoryError):
                self._store.close(self._new)
            self._store = None


@functools.cache
def _environment(rules: tuple[type[Rule], ...]) -> bytes:
    """Names what findings depend on besides the file: rules, versions, size and time of every module and table."""
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
    """Size and time of libcst's parser, nothing where there is none, as in the playground of the site."""
    found = importlib.util.find_spec("libcst")
    place = os.path.dirname(found.origin) if found is not None and found.origin else ""
    with contextlib.suppress(OSError):
        return [
            line for entry in os.scandir(place) if entry.name.startswith("native.") for line in _modules(entry.path)
        ]
    return []


@functools.cache
def _modules(place: str) -> list[str]:
    """Path, size and time of the module `place`, or of every module and table in the folder `place`."""
    with contextlib.suppress(OSError):
        if os.path.isdir(place):
            kept = (entry for entry in os.scandir(place) if entry.name.endswith((".py", ".json")) or entry.is_dir())
            inner = sorted(entry.path for entry in kept)
            return [line for path in inner for line in _modules(path)]
        status = os.stat(place)
        return [f"{place}:{status.st_size}:{status.st_mtime_ns}"]
    return []
