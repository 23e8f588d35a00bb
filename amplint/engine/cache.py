"""Findings of earlier runs, by content, rules and version; a cache that cannot be used is silently no cache."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Set
from pathlib import Path

import amplint
from amplint.engine.analyse import Analysis
from amplint.engine.diagnostics import RuleCrashed
from amplint.engine.records import from_record, to_record
from amplint.findings import Finding
from amplint.rule import Rule

FOLDER = ".amplint_cache"
_KEPT_DAYS = 30
_TIMEOUT_S = 5.0
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder holds amplint's cache; it may be deleted.\n"


def project_root(folder: Path) -> Path:
    """Where the cache of work in `folder` goes: the nearest folder above with a project's files, else `folder`."""
    marks = ("amplint.toml", "pyproject.toml", ".git")
    places = (folder, *folder.parents)
    return next((place for place in places if any((place / mark).exists() for mark in marks)), folder)


class Cache:
    """What is known already: from this run, and with a `root` folder from earlier runs of that project.

    Rows are written when the cache is closed, so that locks are held briefly.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._today = int(time.time() // 86_400)
        self._new: dict[str, str] = {}
        self._used: list[str] = []
        self._database = None if root is None else _open(root / FOLDER / "findings.db")

    def key(
        self,
        raw: bytes,
        rules: tuple[type[Rule], ...],
        folder: str = "",
        torch: str | None = None,
        asked: Set[str] = frozenset(),
    ) -> str:
        """Names the findings of `rules` in a file with the bytes `raw`, which is for this version of PyTorch.

        `folder` is where it lies, if what is there matters, and `asked` are the codes that were selected.
        """
        digest = hashlib.blake2b(_environment(rules), digest_size=20)
        digest.update(f"{torch}\n{sorted(asked)}\n".encode())
        digest.update(raw)
        if folder:
            digest.update(os.fsencode(os.path.relpath(folder, self._root) if self._root else folder))
        return digest.hexdigest()

    def get(self, key: str, filename: str, holds: Callable[[list[list[str]]], bool]) -> list[Finding] | None:
        """The findings kept under `key`, said of `filename`; None when there are none to be had.

        `holds` is asked whether what the analysis learned of other files is still so.
        """
        try:
            value = self._new.get(key) or self._stored(key)
            kept = None if value is None else json.loads(value)
            if kept is None or not holds(kept["asked"]):
                return None
            return [from_record(record, filename) for record in kept["findings"]]
        except (sqlite3.Error, ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, key: str, analysis: Analysis) -> None:
        """Keep what was found under `key`, unless the analysis failed."""
        if not any(finding.code == RuleCrashed.code for finding in analysis.findings):
            findings = [to_record(finding) for finding in analysis.findings]
            self._new[key] = json.dumps({"findings": findings, "asked": analysis.asked})

    def close(self) -> None:
        """Write what is new, forget what has not been used for a month."""
        if self._database is None:
            return
        with contextlib.suppress(sqlite3.Error), contextlib.closing(self._database) as database:
            if self._new or self._used:
                rows = [(key, self._today, value) for key, value in self._new.items()]
                used = [(self._today, key) for key in self._used]
                database.execute("BEGIN IMMEDIATE")
                database.executemany("INSERT OR REPLACE INTO findings VALUES (?, ?, ?)", rows)
                database.executemany("UPDATE findings SET day = ? WHERE key = ?", used)
                database.execute("DELETE FROM findings WHERE day < ?", (self._today - _KEPT_DAYS,))
                database.execute("COMMIT")

    def _stored(self, key: str) -> str | None:
        if self._database is None:
            return None
        row = self._database.execute("SELECT value, day FROM findings WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        if row[1] != self._today:
            self._used.append(key)
        return str(row[0])


def _open(file: Path) -> sqlite3.Connection | None:
    """The database, None when it cannot be used; what is no database at all is removed for the next run."""
    try:
        _prepare(file.parent)
        database = sqlite3.connect(file, timeout=_TIMEOUT_S, isolation_level=None)
    except (sqlite3.Error, OSError):
        return None
    try:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=OFF")
        database.execute("CREATE TABLE IF NOT EXISTS findings (key TEXT PRIMARY KEY, day INT, value TEXT)")
    except sqlite3.Error as failure:
        database.close()
        if type(failure) is sqlite3.DatabaseError:
            with contextlib.suppress(OSError):
                file.unlink()
        return None
    return database


@functools.cache
def _environment(rules: tuple[type[Rule], ...]) -> bytes:
    """What findings depend on besides the file: rules, versions, size and time of every module and table involved."""
    from importlib.metadata import version

    places = {os.path.dirname(amplint.__file__)}
    for rule in rules:
        file = getattr(sys.modules.get(rule.__module__), "__file__", None) or ""
        places.add(os.path.dirname(file) if "." in rule.__module__ else file)
    parts = [amplint.__version__, sys.version, version("libcst"), *(rule.code for rule in rules)]
    for place in sorted(places):
        parts += _modules(place)
    return "\n".join(parts).encode("utf-8", "surrogateescape")


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


def _prepare(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        (folder / "CACHEDIR.TAG").write_text(_TAG, encoding="utf-8")
