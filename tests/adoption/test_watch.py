"""`--watch`: files are linted again when they change, until Ctrl-C."""

from __future__ import annotations

import builtins
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.adoption.test_baseline import BAD, GOOD
from tests.conftest import Command

PATIENCE_S = 60


def lines_of(stream: IO[str]) -> Iterator[str]:
    """The lines of a pipe, each awaited for a limited time."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=lambda: [lines.put(line) for line in stream], daemon=True).start()
    while True:
        yield lines.get(timeout=PATIENCE_S)


def until(lines: Iterator[str], text: str) -> str:
    """What comes up to and with the line that holds `text`."""
    seen = ""
    for line in lines:
        seen += line
        if text in line:
            return seen
    raise AssertionError(seen)


@pytest.mark.skipif(os.name == "nt", reason="interrupts are sent in another way there")
@pytest.mark.parametrize("path", [".", "train.py"])
def test_watching(project: Path, path: str) -> None:
    script = project / "train.py"
    script.write_text(BAD, encoding="utf-8")
    command = [sys.executable, "-m", "amplint", "check", path, "--watch", "--no-cache", "--output-format", "concise"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=project) as process:
        assert process.stdout is not None
        lines = lines_of(process.stdout)
        try:
            assert "AMP205" in until(lines, "Watching for changes")
            fresh = project / "fresh"  # as editors write: a new file takes the place of the old one
            fresh.write_text(GOOD, encoding="utf-8")
            fresh.replace(script)
            assert "Nothing found" in until(lines, "Watching for changes")
            (project / "amplint.toml").write_text("nonsense = 1\n", encoding="utf-8")
            assert 'unknown key "nonsense"' in until(lines, "Watching for changes")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 130
        finally:
            process.kill()


def test_the_library_is_missing(project: Path, amplint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: object) -> object:
        if name == "watchfiles":
            raise ImportError(name)
        return real(name, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    ran = amplint("--watch")
    assert ran.status == 2
    assert 'pip install "amplint[watch]"' in ran.err


def test_a_path_that_does_not_exist(amplint: Command) -> None:
    assert "no such file" in amplint("nowhere", "--watch").err
