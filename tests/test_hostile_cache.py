"""A cache that came with the linted tree, or from anybody else, has no effect but that it is made anew."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amplint.engine import store as store_module
from amplint.engine.records import to_record
from amplint.engine.store import Store, user_folder
from amplint.findings import Edit, Fix, Note, Position, Span
from tests.conftest import Command
from tests.test_cli import BAD
from tests.test_reports import FINDING

DATABASE = "findings-1.db"
START = Span(Position(1, 1), Position(1, 1))
FAR = Span(Position(1, 1), Position(1_000_000_000, 1))


def forged(**changes: object) -> str:
    """The text of a row with one finding that amplint did not make."""
    values = {name: changes.get(name, getattr(FINDING, name)) for name in FINDING.__dataclass_fields__}
    return json.dumps({"findings": [to_record(type(FINDING)(**values))], "asked": {}})


VALUES = {
    "no findings": '{"findings": [], "asked": {}}',
    "a fix": forged(fix=Fix("Repair.", (Edit(START, "__import__('os').system('id')\n"),))),
    "a note in another file": forged(notes=(Note("look here", START, "../secret"),)),
    "nested lists": "[" * 100_000,
    "a span of 1e9 rows": forged(span=FAR),
}
ENDLESS = "CREATE VIEW findings AS WITH RECURSIVE c(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM c) SELECT {} FROM c"


@contextlib.contextmanager
def connected(file: Path) -> Iterator[sqlite3.Connection]:
    """The database, changed for good at the end."""
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        yield database


@pytest.fixture
def clean(amplint: Command, project: Path) -> tuple[str, str]:
    """What amplint says of a bad script, and what it makes of it."""
    (project / "train.py").write_text(BAD, encoding="utf-8")
    (project.parent / "secret").write_text("the secret\n", encoding="utf-8")
    out = amplint("--no-cache").out
    amplint("--no-cache", "--fix")
    fixed = (project / "train.py").read_text(encoding="utf-8")
    (project / "train.py").write_text(BAD, encoding="utf-8")
    return out, fixed


def assert_unimpressed(amplint: Command, project: Path, clean: tuple[str, str], *options: str) -> None:
    """Runs with this cache, the second and third with what the first left, are as good as without one."""
    started = time.monotonic()
    for _ in range(2):
        ran = amplint(*options)
        assert (ran.status, ran.out) == (1, clean[0])
    amplint(*options, "--fix")
    assert (project / "train.py").read_text(encoding="utf-8") == clean[1]
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("name", [*VALUES, "an endless view", "a link"])
def test_a_cache_in_the_tree_is_not_looked_at(
    amplint: Command, project: Path, clean: tuple[str, str], name: str
) -> None:
    file = project / ".amplint_cache" / "findings.db"
    file.parent.mkdir()
    with connected(project.parent / "others.db") as others:
        others.execute("CREATE TABLE findings (key TEXT PRIMARY KEY, day INT, value TEXT)")
        others.execute("INSERT INTO findings VALUES ('theirs', 1, '')")
    before = (project.parent / "others.db").read_bytes()
    if name == "a link":
        file.symlink_to("../../others.db")
    else:
        with connected(file) as database:
            if name == "an endless view":
                database.execute(ENDLESS.format("key, 1 AS day, '' AS value"))
            else:
                database.execute("CREATE TABLE findings (key TEXT PRIMARY KEY, day INT, value TEXT)")
                value = VALUES[name].replace("'", "''")
                database.execute(
                    "CREATE TRIGGER t AFTER INSERT ON findings BEGIN "
                    f"UPDATE findings SET value = '{value}' WHERE key = new.key; END"
                )
    assert_unimpressed(amplint, project, clean)
    assert (project.parent / "others.db").read_bytes() == before


Change = Callable[[sqlite3.Connection], object]


def _updating(value: str) -> Change:
    return lambda database: database.execute("UPDATE findings SET value = ?", (value.encode(),))


def _triggering(value: str) -> Change:
    quoted = value.replace("'", "''")
    return lambda database: database.execute(
        "CREATE TRIGGER t AFTER INSERT ON findings BEGIN "
        f"UPDATE findings SET value = CAST('{quoted}' AS BLOB) WHERE key = new.key; END"
    )


def _viewing(database: sqlite3.Connection) -> None:
    database.execute("DROP TABLE findings")
    database.execute(ENDLESS.format("key, 1 AS day, x'' AS value, x'' AS seal"))


def _moving_seals(database: sqlite3.Connection) -> None:
    database.execute("UPDATE findings SET (value, seal) = (SELECT value, seal FROM findings ORDER BY length(value))")


def _misleading(database: sqlite3.Connection) -> None:
    database.execute("ALTER TABLE findings RENAME TO real")
    database.execute("CREATE TABLE findings (key TEXT PRIMARY KEY, day INTEGER, value BLOB DEFAULT x'', seal BLOB)")


CHANGES: dict[str, Change] = {
    **{f"updated: {name}": _updating(value) for name, value in VALUES.items()},
    **{f"trigger: {name}": _triggering(value) for name, value in VALUES.items()},
    "an endless view": _viewing,
    "rows with the seals of others": _moving_seals,
    "another schema": _misleading,
    "a write-ahead log": lambda database: database.execute("PRAGMA journal_mode=WAL"),
    "another type": lambda database: database.execute("UPDATE findings SET value = 1e999, seal = 'text'"),
    "a large value": lambda database: database.execute("UPDATE findings SET value = zeroblob(5000000)"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_forged_database(amplint: Command, project: Path, clean: tuple[str, str], change: str) -> None:
    (project / "other.py").write_text("x = 1\n", encoding="utf-8")
    options = ("--cache-dir", ".cache")
    amplint(*options)
    (project / "other.py").unlink()
    with connected(project / ".cache" / DATABASE) as database:
        CHANGES[change](database)
    assert_unimpressed(amplint, project, clean, *options)


def test_pages_that_lead_in_circles(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project / "c"
    Store(folder).close({str(number): "text" for number in range(5_000)})
    monkeypatch.setattr(store_module, "_STEPS", 1_000)
    Store(folder).close({"one": "more"})  # to look for old rows takes more than 1,000 instructions
    kept = Store(folder)
    assert kept.get("0") is None
    assert kept.get("one") == "more"


@pytest.mark.parametrize("journal", ["-journal", "-wal", "-shm"])
def test_a_planted_journal(amplint: Command, project: Path, clean: tuple[str, str], journal: str) -> None:
    options = ("--cache-dir", ".cache")
    amplint(*options)
    planted = project / ".cache" / f"{DATABASE}{journal}"
    planted.write_bytes(os.urandom(5000))
    assert_unimpressed(amplint, project, clean, *options)
    assert not planted.exists()


def test_a_database_of_another_size(amplint: Command, project: Path, clean: tuple[str, str]) -> None:
    options = ("--cache-dir", ".cache")
    amplint(*options)
    file = project / ".cache" / DATABASE
    os.truncate(file, 1 << 40)  # takes no space
    assert_unimpressed(amplint, project, clean, *options)
    assert file.stat().st_size < 1_000_000


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_a_linked_database(amplint: Command, project: Path, clean: tuple[str, str], kind: str) -> None:
    others = project.parent / "others.db"
    Store(project.parent / "others").close({"theirs": "text"})
    shutil.copy(project.parent / "others" / DATABASE, others)
    before = others.read_bytes()
    (project / ".cache").mkdir()
    file = project / ".cache" / DATABASE
    if kind == "hard":
        file.hardlink_to(others)
    else:
        file.symlink_to(others)
    assert_unimpressed(amplint, project, clean, "--cache-dir", ".cache")
    assert others.read_bytes() == before
    assert not file.is_symlink()
    assert file.stat().st_nlink == 1


def test_a_linked_folder(amplint: Command, project: Path, clean: tuple[str, str]) -> None:
    (project.parent / "theirs").mkdir()
    (project / ".cache").symlink_to(project.parent / "theirs")
    assert_unimpressed(amplint, project, clean, "--cache-dir", ".cache")
    assert not list((project.parent / "theirs").iterdir())


def test_two_users(amplint: Command, project: Path, clean: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    shared = project.parent / "shared"
    store = Store(shared)
    store.close({"key": "mine"})
    assert Store(shared).get("key") == "mine"
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.parent / "home of another"))
    assert Store(shared).get("key") is None
    amplint("--cache-dir", str(shared))
    shutil.copytree(shared, project / "copied")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.parent / "cache"))
    assert_unimpressed(amplint, project, clean, "--cache-dir", "copied")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_the_folder_of_another_user(
    amplint: Command, project: Path, clean: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    amplint("--cache-dir", "mine")
    before = (project / "mine" / DATABASE).read_bytes()
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert_unimpressed(amplint, project, clean, "--cache-dir", "mine")
    assert (project / "mine" / DATABASE).read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no modes here")
@pytest.mark.parametrize("wrong", ["others can read it", "a link", "too long"])
def test_a_key_that_is_none(project: Path, wrong: str) -> None:
    Store(project / "c").close({"key": "text"})
    file = user_folder() / "key"
    secret = file.read_bytes()
    if wrong == "others can read it":
        file.chmod(0o644)
    elif wrong == "a link":
        file.rename(project / "key")
        file.symlink_to(project / "key")
    else:
        file.write_bytes(secret * 2)
    assert Store(project / "c").get("key") is None
    assert file.read_bytes() not in (secret, secret * 2)
    assert not file.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_repair_is_never_made_of_what_a_cache_says(
    amplint: Command, project: Path, clean: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    amplint()
    monkeypatch.setattr(Store, "get", lambda self, key: VALUES["a fix"])  # as if it had the user's key
    assert "AMP" in amplint().out
    amplint("--fix")
    assert (project / "train.py").read_text(encoding="utf-8") == clean[1]


def test_a_note_leads_only_to_files_that_the_analysis_looked_at(
    amplint: Command, project: Path, clean: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    amplint()
    monkeypatch.setattr(Store, "get", lambda self, key: VALUES["a note in another file"])
    assert amplint().out == clean[0]
