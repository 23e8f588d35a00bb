"""Runs that are ended from outside: the status, the files, and what is left of the worker processes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amplint.engine.run import POOL_BYTES, cores
from benchmarks.chains import chain
from tests.processes import lives, wait_until, workers
from tests.test_cli import BAD

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")

PROGRAM = "print('begun', flush=True)\nfrom amplint.__main__ import main\nmain()"
FIXED = BAD.replace("        torch.nn.utils.clip", "        scaler.unscale_(optimizer)\n        torch.nn.utils.clip")
RUNS = 100
FILES = 12


@contextmanager
def begun(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command in `folder`, from the moment when Python itself has started."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--no-cache", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(cores() < 2, reason="one processor core needs no worker processes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    text = chain(300, 4)
    for index in range(1 + POOL_BYTES // len(text)):
        (tmp_path / f"train{index}.py").write_text(text, encoding="utf-8")
        (tmp_path / f"again{index}.py").write_text(f"{text}\n", encoding="utf-8")
    with begun(tmp_path) as process:
        assert wait_until(lambda: len(workers(process.pid)) >= 2, 30)
        started = workers(process.pid)
        time.sleep(random.uniform(0.0, 1.0))
        process.send_signal(number)
        process.communicate(timeout=30)
        assert wait_until(lambda: not any(map(lives, started)), 5)


@pytest.mark.parametrize("option", ["--fix", "--quiet"])
@pytest.mark.parametrize("large", [False, True], ids=["in one process", "in several"])
def test_interrupts(tmp_path: Path, option: str, large: bool) -> None:
    padding = "# what makes the file large\n" * (POOL_BYTES // FILES // 25) if large else ""
    texts = {tmp_path / f"train{number}.py": f"{padding}\n# {number}\n" for number in range(FILES)}

    def write() -> None:
        for path, rest in texts.items():
            path.write_text(BAD + rest, encoding="utf-8")

    write()
    with begun(tmp_path, option) as undisturbed:
        started = time.monotonic()
        undisturbed.communicate()
        lasts = time.monotonic() - started
    interrupted = 0
    for _ in range(RUNS // 4):
        write()
        delay = random.uniform(0.02, 0.8 * lasts)
        with begun(tmp_path, option) as process:
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        assert process.returncode in (130, undisturbed.returncode)
        if process.returncode == 130:
            interrupted += 1
        else:  # it had ended when the signal came, so the first run was a slow one
            lasts = min(lasts, delay)
        for path, rest in texts.items():
            assert path.read_text(encoding="utf-8") in (BAD + rest, FIXED + rest)
    assert interrupted > RUNS // 16
