"""Results of earlier runs: when they are used, when not, and what a cache that cannot be used does: nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.engine import cache as cache_module
from amplint.engine import run as run_module
from amplint.engine import store as store_module
from amplint.engine.analyse import Analysis, analyse
from amplint.engine.cache import Cache
from amplint.engine.diagnostics import RuleCrashed, diagnostic
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.engine.store import user_folder
from tests.conftest import Command, Plugin
from tests.test_cli import BAD
from tests.test_reports import FINDING

ROOT = Path(__file__).parents[1]
DATABASE = "findings-1.db"


@pytest.fixture
def analysed(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were analysed, in a project with one bad script."""
    (project / "train.py").write_text(BAD, encoding="utf-8")
    names: list[str] = []

    def counting(job: Job, modules: Modules) -> Analysis:
        names.append(job.filename)
        return analyse(job, modules)

    monkeypatch.setattr(run_module, "analyse", counting)
    return names


def test_a_second_run_analyses_nothing(amplint: Command, analysed: list[str], project: Path) -> None:
    first = amplint("--output-format", "json")
    assert analysed == ["train.py"]
    assert amplint("--output-format", "json") == first
    assert analysed == ["train.py"]
    assert (user_folder() / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert (user_folder() / "CACHEDIR.TAG").read_text(encoding="utf-8").startswith("Signature: 8a477f597d28d172789f")
    assert {path.name for path in project.iterdir()} == {"amplint.toml", "train.py"}


def test_what_is_known_is_not_screened(amplint: Command, analysed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = amplint()
    monkeypatch.setattr(run_module, "screen", lambda *_: pytest.fail("the file was screened"))
    assert amplint() == first
    assert analysed == ["train.py"]


def test_the_same_content_elsewhere_is_known(amplint: Command, analysed: list[str], project: Path) -> None:
    amplint()
    (project / "copy.py").write_text(BAD, encoding="utf-8")
    assert "copy.py:11:9: AMP205" in amplint("--output-format", "concise").out
    assert analysed == ["train.py"]


@pytest.mark.parametrize("change", ["content", "selection", "plugin", "version", "torch"])
def test_what_makes_a_result_stale(
    amplint: Command,
    analysed: list[str],
    project: Path,
    plugin: Plugin,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    name = plugin(
        """
        from amplint.findings import Severity
        from amplint.rule import Rule

        class Quiet(Rule):
            '''Quiet.'''

            code = "TST001"
            name = "quiet"
            severity = Severity.INFO
            screen = ()
            on_scaler_created = lambda self, event: iter(())
        """
    )
    amplint()
    cache_module._environment.cache_clear()
    cache_module._modules.cache_clear()
    arguments = []
    if change == "content":
        (project / "train.py").write_text(BAD + "\n", encoding="utf-8")
    elif change == "selection":
        arguments = ["--ignore", "TST001"]
    elif change == "plugin":
        os.utime(project.parent / "site" / f"{name}.py", (1, 1))
    elif change == "torch":
        (project / "amplint.toml").write_text('torch-version = "2.13"', encoding="utf-8")
    else:
        monkeypatch.setattr("amplint.__version__", "99")
    amplint(*arguments)
    assert analysed == ["train.py", "train.py"]
    cache_module._environment.cache_clear()
    cache_module._modules.cache_clear()


def test_no_cache(amplint: Command, analysed: list[str], project: Path) -> None:
    amplint("--no-cache")
    assert not user_folder().exists()
    amplint()
    amplint("--no-cache")
    assert len(analysed) == 3


def test_suppressions_are_judged_anew(amplint: Command, analysed: list[str], project: Path) -> None:
    text = BAD.replace("1.0)", "1.0)  # amplint: ignore[AMP205, AMP777]")
    (project / "train.py").write_text(text, encoding="utf-8")
    assert "AMP777" in amplint("--select", "AMP205,AMP004").out
    assert amplint("--select", "AMP205").status == 0
    assert analysed == ["train.py"]


def test_where_the_cache_is(
    amplint: Command, analysed: list[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "amplint.toml").write_text('cache-dir = "here"', encoding="utf-8")
    assert amplint().status == 2  # the linted tree has no say in it
    (project / "amplint.toml").write_text("", encoding="utf-8")
    amplint("--cache-dir", "given")
    monkeypatch.setenv("AMPLINT_CACHE_DIR", "given")
    amplint()
    assert analysed == ["train.py"]
    assert sorted(path.name for path in (project / "given").iterdir()) == [".gitignore", "CACHEDIR.TAG", DATABASE]
    assert [path.name for path in user_folder().iterdir() if path.name in ("key", DATABASE)] == ["key"]


@pytest.mark.parametrize(
    "damage", ["garbage", "truncated", "emptied", "wrong table", "wrong values", "no key", "folder is a file"]
)
def test_a_broken_cache_is_made_anew(amplint: Command, analysed: list[str], damage: str) -> None:
    expected = amplint("--output-format", "json")
    file = user_folder() / DATABASE
    if damage == "garbage":
        file.write_bytes(b"not a database" * 1000)
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:5000])
    elif damage == "emptied":
        file.write_bytes(b"")
    elif damage == "no key":
        (user_folder() / "key").write_bytes(b"short")
    elif damage == "folder is a file":
        shutil.rmtree(user_folder())
        user_folder().touch()
    else:
        sql = "UPDATE findings SET value = '[{}, 3]'" if damage == "wrong values" else "ALTER TABLE findings DROP day"
        with sqlite3.connect(file) as database:
            database.execute(sql)
        database.close()
    assert amplint("--output-format", "json") == expected
    assert analysed == ["train.py", "train.py"]
    assert amplint("--output-format", "json") == expected
    assert analysed == ["train.py"] * (3 if damage == "folder is a file" else 2)


def test_a_locked_cache_is_no_cache(
    amplint: Command, analysed: list[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    amplint()
    (project / "new.py").write_text(BAD + "\n", encoding="utf-8")
    monkeypatch.setattr(store_module, "_TIMEOUT_S", 0.05)
    with sqlite3.connect(user_folder() / DATABASE, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert amplint("--output-format", "concise").out.count("AMP205") == 2
    other.close()


def test_old_rows_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000 * 86_400.0
    monkeypatch.setattr(store_module.time, "time", lambda: now)

    def known(*keys: str) -> list[bool]:
        cache = Cache(tmp_path)
        found = [cache.get(key, "a.py", lambda asked: True) is not None for key in keys]
        cache.put(f"new at {now}", Analysis([]))
        cache.close()
        return found

    cache = Cache(tmp_path)
    cache.put("used", Analysis([FINDING]))
    cache.put("unused", Analysis([FINDING]))
    cache.close()
    now += 25 * 86_400
    assert known("used") == [True]
    now += 10 * 86_400
    assert known("used") == [True]
    assert known("used", "unused") == [True, False]


def test_findings_take_the_name_of_the_file(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("key", Analysis([FINDING]))
    cache.close()
    (found,) = Cache(tmp_path).get("key", "other.py", lambda asked: True) or []
    assert found.filename == "other.py"
    assert found.fix == FINDING.fix
    assert found.notes == FINDING.notes


def test_a_crash_is_not_remembered(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("key", Analysis([diagnostic(RuleCrashed, "a.py", "failed")]))
    assert cache.get("key", "a.py", lambda asked: True) is None


def test_the_key_depends_on_rules_and_content() -> None:
    first, second, *_ = (rule for rule in load_registry().rules.values() if rule.handlers())
    cache = Cache(None)
    keys = {
        cache.key(b"a", (first,)),
        cache.key(b"b", (first,)),
        cache.key(b"a", (second,)),
        cache.key(b"a", (first, second)),
        cache.key(b"a", ()),
        cache.key(b"a", (first,), torch="2.13"),
    }
    assert len(keys) == 6
    assert cache.key(b"a", (first,)) in keys


def test_runs_at_the_same_time(project: Path) -> None:
    for number in range(10):
        (project / f"train{number}.py").write_text(f"{BAD}\nx = {number}\n", encoding="utf-8")
    command = [sys.executable, "-m", "amplint", "--output-format", "concise"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    runs = [
        subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    outputs = [run.communicate() for run in runs]
    assert {run.returncode for run in runs} == {1}
    assert len(set(outputs)) == 1
    assert outputs[0][0].count(b"AMP205") == 10
