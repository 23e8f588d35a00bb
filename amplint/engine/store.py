"""Texts of earlier runs in a database that is trusted only if this user wrote it.

A cache folder can come from anywhere: a repository, an archive, a shared disk. So every row carries a MAC under a key
that lies in the user's own cache folder, the database must have exactly the schema below (triggers, views and defaults
are code), must be no link to another file, and must have no journals, which name further files. Anything else is
discarded silently and created anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from amplint.hardening import Uninterrupted
from amplint.source.files import read

_DATABASE = "findings-1.db"
_JOURNALS = ("-journal", "-wal", "-shm")
_SCHEMA = "CREATE TABLE findings (key TEXT PRIMARY KEY, day INTEGER, value BLOB, seal BLOB) WITHOUT ROWID"
_MAGIC = b"SQLite format 3\0"
_ROLLBACK = b"\1\1"
"""Bytes 18 and 19 of a database without a write-ahead log."""
_KEY = "key"
_KEY_BYTES = 32
_DATABASE_BYTES = 256 << 20
_VALUE_BYTES = 4 << 20
_STEPS = 50_000_000
"""Instructions of SQLite after which a statement is given up: pages of a forged tree can lead in circles."""
_TIMEOUT_S = 5.0
_KEPT_DAYS = 30
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder holds amplint's cache; it may be deleted.\n"


def user_folder() -> Path:
    """The user's folder for caches of amplint, by the conventions of the operating system."""
    from platformdirs import user_cache_path

    return user_cache_path("amplint", appauthor=False)


def remove(folder: Path) -> int:
    """Remove amplint's files in `folder`, and the folder if it is then empty; return the number of bytes freed.

    Raises OSError if something cannot be removed.
    """
    names = (_DATABASE, *(f"{_DATABASE}{journal}" for journal in _JOURNALS), _KEY, "CACHEDIR.TAG", ".gitignore")
    size = 0
    if not (folder / _DATABASE).is_file() and not (folder / "CACHEDIR.TAG").is_file():
        return size
    for file in (*(folder / name for name in names), *folder.glob(f".{_DATABASE}.*")):
        with contextlib.suppress(FileNotFoundError):
            size += file.lstat().st_size
            file.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()
    return size


class Store:
    """Texts by key, in a database in `folder`.

    Rows are written when the store is closed, so that locks are held briefly; rows unused for a month are dropped.
    Raises OSError or sqlite3.Error if no sound database can be opened.
    """

    def __init__(self, folder: Path) -> None:
        self._secret = _secret(user_folder())
        self._file = folder / _DATABASE
        self._today = int(time.time() // 86_400)
        self._used: list[str] = []
        self._broken = self._silent = False
        _prepare(folder)
        self._database = _open(self._file)

    def get(self, key: str) -> str | None:
        """The text under `key`, None if this user stored none."""
        if self._silent:
            return None
        try:
            query = "SELECT day, value, seal FROM findings WHERE key = ? AND length(value) <= ?"
            row = self._database.execute(query, (key, _VALUE_BYTES)).fetchone()
        except (sqlite3.Error, MemoryError) as failure:
            self._silent = True  # even if it is locked: no further file should wait for it
            self._broken = _is_broken(failure)
            return None
        if row is None:
            return None
        day, value, seal = row
        if not isinstance(value, bytes) or not isinstance(seal, bytes):
            return None
        if not hmac.compare_digest(seal, self._seal(key, value)):
            return None
        if day != self._today:
            self._used.append(key)
        return value.decode()

    def close(self, new: Mapping[str, str]) -> None:
        """Write the texts in `new` and close the database; one that proved corrupt is created anew.

        Raises OSError or sqlite3.Error if nothing can be written.
        """
        with contextlib.closing(self._database) as database:
            try:
                if (new or self._used) and not self._broken:
                    self._write(database, new)
            except sqlite3.Error as failure:
                if not _is_broken(failure):
                    raise
                self._broken = True
        if self._broken:
            _discard(self._file)
            with contextlib.closing(_open(self._file)) as database:
                self._write(database, new)

    def _write(self, database: sqlite3.Connection, new: Mapping[str, str]) -> None:
        texts = ((key, text.encode()) for key, text in new.items())
        rows = [(key, self._today, value, self._seal(key, value)) for key, value in texts if len(value) <= _VALUE_BYTES]
        used = [(self._today, key) for key in self._used]
        oldest = self._today - _KEPT_DAYS
        database.execute("BEGIN IMMEDIATE")
        database.executemany("INSERT OR REPLACE INTO findings VALUES (?, ?, ?, ?)", rows)
        database.executemany("UPDATE findings SET day = ? WHERE key = ?", used)
        database.execute("DELETE FROM findings WHERE (day BETWEEN ? AND ?) IS NOT TRUE", (oldest, self._today))
        database.execute("COMMIT")

    def _seal(self, key: str, value: bytes) -> bytes:
        return hashlib.blake2b(b"%d:%s%s" % (len(key), key.encode(), value), key=self._secret).digest()


def _secret(folder: Path) -> bytes:
    """The user's key; one that is malformed or readable by others is replaced. Raises OSError."""
    _prepare(folder)
    file = folder / _KEY
    with contextlib.suppress(OSError):
        if _is_own_file(file, private=True):
            found = read(file, _KEY_BYTES)
            if len(found) == _KEY_BYTES:
                return found
    with _replacing(file) as name:
        Path(name).write_bytes(secrets.token_bytes(_KEY_BYTES))
    return read(file, _KEY_BYTES)  # of several created at the same time, the last one counts


def _prepare(folder: Path) -> None:
    """Create the folder if needed.

    Raises OSError if it is a link, another user's, or relative to the current folder.
    """
    if not folder.is_absolute():
        raise NotADirectoryError(f"{folder} is not absolute")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        (folder / "CACHEDIR.TAG").write_text(_TAG, encoding="utf-8")
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or not _is_own(status):
        raise NotADirectoryError(f"{folder} is not a folder of this user")


def _open(file: Path) -> sqlite3.Connection:
    """The database at `file`, created anew if it is not sound. Raises OSError or sqlite3.Error."""
    for _ in range(2):
        if not _is_sound(file):
            _discard(file)
            _create(file)
        try:
            database = _connect(file)
            if _schema(database) == [("table", _SCHEMA)]:
                return database
            database.close()
        except sqlite3.Error as failure:
            if not _is_broken(failure):
                raise
        _discard(file)
    raise sqlite3.DatabaseError("the database is replaced again and again")


def _connect(name: str | Path) -> sqlite3.Connection:
    database = sqlite3.connect(name, timeout=_TIMEOUT_S, isolation_level=None)
    with _closed_on_failure(database):
        database.set_progress_handler(lambda: 1, _STEPS)
        for setting in ("trusted_schema=OFF", "cell_size_check=ON", "journal_mode=MEMORY", "synchronous=OFF"):
            database.execute(f"PRAGMA {setting}")
    return database


def _schema(database: sqlite3.Connection) -> list[tuple[str, str]]:
    with _closed_on_failure(database):
        return database.execute("SELECT type, sql FROM sqlite_master").fetchall()


@contextlib.contextmanager
def _closed_on_failure(database: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error:
        database.close()
        raise


def _create(file: Path) -> None:
    with _replacing(file) as name, contextlib.closing(_connect(name)) as database:
        database.execute(_SCHEMA)


@contextlib.contextmanager
def _replacing(file: Path) -> Iterator[str]:
    """The name of a new private file that replaces `file` at the end of the context."""
    with Uninterrupted():
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        os.close(handle)
        try:
            yield name
            os.replace(name, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def _is_sound(file: Path) -> bool:
    """Whether SQLite may open `file`: no link, no journal to replay, and within the size that is ever written."""
    try:
        if any(os.path.lexists(f"{file}{journal}") for journal in _JOURNALS) or not _is_own_file(file):
            return False
        with open(file, "rb") as database:
            head = database.read(20)
    except OSError:
        return False
    return head[:16] == _MAGIC and head[18:] == _ROLLBACK and file.stat().st_size <= _DATABASE_BYTES


def _is_own_file(file: Path, *, private: bool = False) -> bool:
    """Whether `file` is a regular file of this user with a single link, and, if `private`, inaccessible to others."""
    status = file.lstat()
    others = status.st_mode & 0o077 if private and hasattr(os, "geteuid") else 0
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and _is_own(status) and not others


def _is_own(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _is_broken(failure: Exception) -> bool:
    """Whether the failure is the database's fault rather than a lock or a full disk."""
    return type(failure) is sqlite3.DatabaseError or str(failure) == "interrupted"


def _discard(file: Path) -> None:
    """Remove the database and its journals; links are removed, their targets kept. Raises OSError."""
    for suffix in ("", *_JOURNALS):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{file}{suffix}")
