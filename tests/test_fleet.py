"""Linting many repositories: one of them by itself, all of them on a local Ray cluster, and as frames for Spark."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import ray

from amplint import __version__
from amplint.fleet.repository import Linted, Options, key_of, lint_repository
from amplint.fleet.run import Progress, lint_fleet, lint_frames
from amplint.fleet.store import FINDINGS, Store, report
from tests.conftest import Command
from tests.test_cli import BAD, GOOD


@pytest.fixture
def fleet(tmp_path: Path) -> dict[str, str]:
    """Three repositories by their names: one with a finding, one without, and one with all kinds of strange files."""
    folders = {name: tmp_path / "repositories" / name for name in ("bad", "good", "strange")}
    for folder in folders.values():
        (folder / ".git").mkdir(parents=True)
    (folders["bad"] / "train.py").write_text(BAD)
    (folders["bad"] / "amplint.toml").write_text('ignore = ["ALL"]\n')
    (folders["good"] / "train.py").write_text(GOOD)
    strange = folders["strange"]
    (strange / "train.py").write_text(BAD)
    (strange / "bytes.py").write_bytes(b"\xff\xfeautocast\0")
    (strange / "gone.py").symlink_to("nowhere")
    (strange / "loop").symlink_to(".")
    os.mkfifo(strange / "pipe.py")
    return {name: str(folder) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray, on two cores."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()


def codes(linted: Linted) -> list[str]:
    """The codes of what was found."""
    return [row["code"] for row in linted.findings]


def test_one_repository(fleet: dict[str, str]) -> None:
    linted = lint_repository(fleet["bad"], Options())
    assert (linted.status, linted.files, linted.reason, linted.skipped) == ("done", 1, "", {})
    (row,) = linted.findings
    assert (row["path"], row["code"], row["severity"]) == ("train.py", "AMP205", "error")
    assert row["row"] >= 1
    assert linted.bytes == len(BAD)
    assert linted.cpu_seconds > 0


def test_settings_of_strangers_count_only_where_that_is_asked(fleet: dict[str, str], tmp_path: Path) -> None:
    assert codes(lint_repository(fleet["bad"], Options(own_settings=True))) == []
    own = tmp_path / "ours.toml"
    own.write_text('select = ["AMP7"]\n')
    assert codes(lint_repository(fleet["bad"], Options(config=str(own)))) == []
    own.write_text("select = 5\n")
    linted = lint_repository(fleet["bad"], Options(config=str(own)))
    assert linted.status == "failed"
    assert '"select" must be a list of strings' in linted.reason


def test_nothing_of_a_repository_is_run(fleet: dict[str, str]) -> None:
    folder = Path(fleet["bad"])
    for name in ("amplint", "json", "torch", "sitecustomize", "libcst", "encodings"):
        (folder / f"{name}.py").write_text("open('ran', 'w').close()\n")
    assert codes(lint_repository(str(folder), Options())) == ["AMP205"]
    assert not list(folder.rglob("ran"))


def test_strange_files_are_findings(fleet: dict[str, str]) -> None:
    linted = lint_repository(fleet["strange"], Options())
    assert linted.status == "done"
    assert sorted(codes(linted)) == ["AMP001", "AMP002", "AMP002", "AMP205"]


@pytest.mark.parametrize("killed", [False, True], ids=["hangs", "is killed"])
def test_a_file_at_which_the_process_ends_is_left_out(
    fleet: dict[str, str], monkeypatch: pytest.MonkeyPatch, killed: bool, tmp_path: Path
) -> None:
    """The process is one that stops at a file of this name, for ever or by a signal."""
    (Path(fleet["bad"]) / "a_poisoned.py").write_text(BAD)
    stopping = tmp_path / "stopping"
    stopping.mkdir()
    end = "os.kill(os.getpid(), 9)" if killed else "time.sleep(1000)"
    (stopping / "sitecustomize.py").write_text(
        "import os, time\n"
        "import amplint.engine.run as run\n"
        "checked = run.Linter.check_all\n"
        "def check_all(self, targets, progress):\n"
        f"    if 'poisoned' in targets[0].path: {end}\n"
        "    return checked(self, targets, progress)\n"
        "run.Linter.check_all = check_all\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(stopping), str(Path(__file__).parents[1])]))
    linted = lint_repository(fleet["bad"], Options(seconds=5))
    assert linted.status == "partly"
    reason = "the process was killed by signal 9" if killed else "takes longer than 5 s"
    assert {os.path.normpath(path): why for path, why in linted.skipped.items()} == {"a_poisoned.py": reason}
    assert codes(linted) == ["AMP205"]


def test_the_key_names_all_that_findings_depend_on(fleet: dict[str, str], tmp_path: Path) -> None:
    keys = {key_of(fleet["bad"], Options()), key_of(fleet["good"], Options()), key_of(fleet["bad"], Options(seconds=9))}
    (Path(fleet["bad"]) / "README.md").write_text("no code")
    assert key_of(fleet["bad"], Options()) in keys
    (Path(fleet["bad"]) / "other.py").write_text("")
    keys.add(key_of(fleet["bad"], Options()))
    own = tmp_path / "ours.toml"
    for text in ("", 'ignore = ["AMP1"]\n'):
        own.write_text(text)
        keys.add(key_of(fleet["bad"], Options(config=str(own))))
    assert len(keys) == 6


def test_a_run_and_its_repetition(cluster: None, fleet: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen: list[Progress] = []
    lint_fleet([*fleet.values()], out, progress=seen.append)
    assert [so_far.done for so_far in seen] == [1, 2, 3]
    rows = pq.read_table(out / "findings.parquet").to_pylist()
    assert sorted((Path(row["repository"]).name, row["code"]) for row in rows) == [
        ("bad", "AMP205"), ("strange", "AMP001"), ("strange", "AMP002"), ("strange", "AMP002"), ("strange", "AMP205"),
    ]  # fmt: skip
    assert {row["amplint"] for row in rows} == {__version__}
    assert pq.read_table(out / "repositories.parquet").column("findings").to_pylist() == [1, 0, 4]
    said = report(out)
    assert said.startswith("3 repositories (3 done), 5 findings\n")
    assert "AMP205 clip-without-unscale" in said

    (Path(fleet["good"]) / "train.py").write_text(BAD)
    lint_fleet([*fleet.values()], out, progress=seen.append)
    assert seen[-1].known == 2
    assert len(pq.read_table(out / "findings.parquet")) == 6
    assert not list(out.rglob("*.new"))


def test_a_lost_worker_does_not_end_the_run(cluster: None, fleet: dict[str, str], tmp_path: Path) -> None:
    ended = threading.Event()

    def kill_workers() -> None:
        """Kill whatever lints, three times."""
        killed = 0
        while killed < 3 and not ended.is_set():
            time.sleep(0.02)
            listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
            for line in listed.splitlines():
                pid, _, what = line.strip().partition(" ")
                if "ray::_lint_unless_known" in what and killed < 3:
                    killed += 1
                    try:
                        os.kill(int(pid), signal.SIGKILL)
                    except ProcessLookupError:
                        killed -= 1

    killer = threading.Thread(target=kill_workers)
    killer.start()
    try:
        lint_fleet([*fleet.values()], tmp_path / "out")
    finally:
        ended.set()
        killer.join()
    rows = pq.read_table(tmp_path / "out" / "repositories.parquet").to_pylist()
    assert len(rows) == 3
    for row in rows:
        assert row["status"] == "done" or "its worker was lost" in row["reason"]
    lint_fleet([*fleet.values()], tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "repositories.parquet").column("status").to_pylist() == ["done"] * 3


def test_frames(fleet: dict[str, str]) -> None:
    frames = [pd.DataFrame({"repository": [fleet["bad"], fleet["good"]]}), pd.DataFrame({"repository": []})]
    (bad, good) = lint_frames(iter(frames))
    assert list(bad.columns) == FINDINGS.names
    assert list(bad["code"]) == ["AMP205"]
    assert list(good.columns) == FINDINGS.names
    assert len(good) == 0
    (first, *_) = lint_frames(iter(frames), kind="repositories")
    assert list(first["status"]) == ["done"]


def test_names_of_repositories_are_only_text(tmp_path: Path) -> None:
    evil = str(tmp_path / "\x1b[31m::error::<b>")
    store = Store(tmp_path / "out")
    store.put(Linted(evil, "key", "failed", reason="a\nb\x1b[0m"))
    store.gather([evil])
    said = report(tmp_path / "out")
    assert "\x1b" not in said
    assert "a b" in said
    assert all(path.name.isprintable() for path in (tmp_path / "out").rglob("*"))


def test_the_command(fleet: dict[str, str], tmp_path: Path, amplint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert amplint("fleet", "--out", str(tmp_path / "out")).status == 2
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ran = amplint("fleet", fleet["bad"], "--out", str(tmp_path / "out"))
    assert ran.status == 2
    assert ran.err == 'Error: amplint fleet needs ray: pip install "amplint[fleet]"\n'
