"""Repairs that are killed or refused: each file is old or new, and the next run leaves nothing behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.fixes.write import sweep
from tests import kill
from tests.conftest import Command
from tests.test_cli import BAD

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


def test_killed_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kill", "--runs", "10", "--files", "12"])
    assert kill.main() == 0
    assert "120 files" not in capsys.readouterr().err


def test_what_a_killed_run_has_left_goes_with_the_next(amplint: Command, project: Path) -> None:
    (project / "train.py").write_text(BAD, encoding="utf-8")
    ours, others = ".train.py.abcd1234.tmp", (".train.py.tmp", ".other.py.abcd1234.tmp", ".train.py.ABCD1234.tmp")
    for name in (ours, *others):
        (project / name).write_text("half a fi", encoding="utf-8")
    amplint()
    assert (project / ours).exists()
    amplint("--fix")
    assert not (project / ours).exists()
    assert all((project / name).exists() for name in others)


def test_what_another_run_has_locked_stays(project: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    busy = project / ".train.py.abcd1234.tmp"
    with busy.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        sweep([str(project / "train.py")])
        assert busy.exists()
    sweep([str(project / "train.py")])
    assert not busy.exists()


def test_a_full_disk(amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (project / "train.py").write_text(BAD, encoding="utf-8")
    monkeypatch.setattr(os, "fsync", refuse)
    ran = amplint("--fix", "--no-cache", "--output-format", "concise")
    assert ran.status == 1
    assert "AMP002[unreadable-file] error: cannot be written: No space left on device" in ran.out
    assert (project / "train.py").read_text(encoding="utf-8") == BAD
    assert sorted(path.name for path in project.iterdir()) == ["amplint.toml", "train.py"]


def test_a_limit_on_the_size_of_files(project: Path) -> None:
    """The system refuses in the middle of a write."""
    large = f"{BAD}\n# {'x' * 100_000}\n"
    (project / "train.py").write_text(large, encoding="utf-8")
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
        "from amplint.cli.main import main; main(['--fix', '--no-cache'])"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=project, capture_output=True, text=True, check=False)
    assert "cannot be written: File too large" in ran.stdout
    assert (project / "train.py").read_text(encoding="utf-8") == large
    assert sorted(path.name for path in project.iterdir()) == ["amplint.toml", "train.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(amplint: Command, project: Path) -> None:
    (project / "train.py").write_text(BAD, encoding="utf-8")
    project.chmod(0o555)
    try:
        assert (
            "cannot be written: Permission denied" in amplint("--fix", "--no-cache", "--output-format", "concise").out
        )
    finally:
        project.chmod(0o755)
    assert (project / "train.py").read_text(encoding="utf-8") == BAD
