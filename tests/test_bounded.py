"""Work has an end: what is opened, how much is read, how long a file is followed, what one more of a thing costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.engine import worker
from amplint.engine.analyse import MOST_BYTES
from amplint.engine.registry import load_registry
from amplint.findings import Finding
from amplint.ruleset.opportunities.whole_file import LARGEST
from amplint.semantics.python import machine
from benchmarks.doublings import GLOBS, SHAPES, lint, match
from tests.conftest import Command
from tests.linting import findings_of
from tests.test_cli import BAD

RULES = tuple(rule for rule in load_registry().rules.values() if rule.handlers())
QUICK_S = 8.0
"""Processor seconds, on a busy machine, for what takes less than two on an idle one."""
SIZES = {
    "`if a and a and ...`": 400,
    "the same, one name": 400,
    "nested `for`": 16,
    "nested `while`": 16,
    "`if a: unscale_` in a row": 200,
    "`if a: list + [...]` in a row": 200,
    "`try` in a row": 200,
    "`a or b or ...` as a value": 800,
    "`x[0][0]...`": 1_600,
    "`x.a.a...`": 1_600,
    "`except` clauses": 400,
    "optimizers": 400,
    "`loss = loss * loss`": 50,
    "subclass chain": 400,
    "functions": 200,
    "functions that train": 200,
    "decimal digits": 128_000,
    "hexadecimal digits": 128_000,
    "`import a.a...`": 6_400,
    "`from ....`": 80_000,
    "`from a import (` lines": 32_000,
    "comments in an open parenthesis of an import": 64_000,
    "`from torch import f(f(...`": 64_000,
    "`noqa: A1` and blanks": 80_000,
    "`noqa:noqa:...`": 80_000,
    "`# amplint: ignore[` again and again": 32_000,
    "`import import ...`": 64_000,
    "`def f(def f(...`": 32_000,
}
"""Shapes that once took more than in proportion, and a size at which that took ten seconds or much more."""


@pytest.mark.parametrize("shape", SIZES)
def test_shapes(shape: str) -> None:
    text = SHAPES[shape].text(SIZES[shape])
    started = time.process_time()
    lint(shape, text)
    assert time.process_time() - started < QUICK_S


@pytest.mark.parametrize("name", GLOBS)
def test_patterns_with_many_wildcards(name: str) -> None:
    started = time.process_time()
    match(name, 64)
    assert time.process_time() - started < QUICK_S


@pytest.mark.parametrize("where", [".gitignore", "amplint.toml"])
@pytest.mark.parametrize("name", GLOBS)
def test_patterns_with_many_wildcards_in_a_tree(amplint: Command, project: Path, where: str, name: str) -> None:
    piece, end = GLOBS[name]
    pattern = piece * 13 + end
    (project / where).write_text(f"exclude = ['{pattern}']\n" if where.endswith("toml") else pattern, encoding="utf-8")
    folder = project / "a/a/a/a/a/a/a/a"
    folder.mkdir(parents=True)
    (folder / f"{'a' * 60}c.py").write_text(BAD, encoding="utf-8")
    started = time.process_time()
    assert amplint("--output-format", "concise").out.count("AMP205") == 1
    assert time.process_time() - started < QUICK_S


def fifo(path: Path) -> None:
    """A FIFO, which has no reader and no writer."""
    os.mkfifo(path)


def endless(path: Path) -> None:
    """A link to a device that has no end."""
    path.symlink_to("/dev/zero")


def device(path: Path) -> None:
    """A link to a device that has nothing."""
    path.symlink_to("/dev/null")


IRREGULAR = [fifo, endless, device]
IMPORTING = BAD.replace("import torch\n", "import torch\nfrom helper import clip\n", 1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
@pytest.mark.parametrize("make", IRREGULAR)
@pytest.mark.parametrize("place", ["train.py", ".gitignore", "helper.py", "amplint.toml", "notebook.ipynb"])
def test_only_regular_files_are_opened(
    amplint: Command, project: Path, place: str, make: Callable[[Path], None]
) -> None:
    (project / "good.py").write_text(IMPORTING, encoding="utf-8")
    expected = amplint("--output-format", "concise", "good.py").out
    (project / place).unlink(missing_ok=True)
    make(project / place)
    named = [place] if place.endswith(("train.py", ".ipynb")) else []
    ran = amplint("--no-cache", "--output-format", "concise", "good.py", *named)
    told = f"{place}:1:1: AMP002[unreadable-file] error: cannot be read: not a regular file\n"
    assert sorted(ran.out.splitlines()) == sorted((expected + told * bool(named)).splitlines())
    assert ran.status == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
@pytest.mark.parametrize("make", IRREGULAR)
@pytest.mark.parametrize("arguments", [("convert", "--to", "amp"), ("report",)])
def test_other_commands_open_only_regular_files(
    amplint: Command, project: Path, arguments: tuple[str, ...], make: Callable[[Path], None]
) -> None:
    make(project / "train.py")
    command = ("trace", "report") if arguments == ("report",) else arguments
    ran = amplint(*command, "train.py")
    assert ran.status in (1, 2)
    assert "not a regular file" in ran.out + ran.err


@pytest.mark.parametrize("limit", [None, 2_000])
def test_a_large_file(amplint: Command, project: Path, limit: int | None) -> None:
    if limit is not None:
        (project / "amplint.toml").write_text(f"max-file-size = {limit}\n", encoding="utf-8")
    most = limit or 10_000_000
    with (project / "train.py").open("wb") as file:
        file.truncate(most + 1)
    started = time.process_time()
    ran = amplint("--output-format", "concise")
    message = f"AMP002[unreadable-file] error: cannot be read: it is larger than {most:,} bytes (max-file-size)"
    assert (ran.status, ran.out) == (1, f"train.py:1:1: {message}\n")
    assert time.process_time() - started < QUICK_S


def test_what_is_too_large_to_be_followed(amplint: Command, project: Path) -> None:
    filling = "x = 1\n" * (MOST_BYTES // 6)
    (project / "data.py").write_text(f"{filling}y = (\n", encoding="utf-8")
    assert (amplint().status, amplint().out) == (0, "")
    (project / "train.py").write_text(f"{BAD}{filling}", encoding="utf-8")
    started = time.process_time()
    ran = amplint("--output-format", "concise")
    message = "The file is larger than 2,000,000 bytes and was not followed; findings can be missing."
    assert (ran.status, ran.out) == (0, f"train.py:1:1: AMP005[cut-short] info: {message}\n")
    assert time.process_time() - started < QUICK_S


def test_whole_conversions_are_for_files_of_ordinary_size(amplint: Command, project: Path) -> None:
    for size in (1_000, LARGEST):
        text = SHAPES["functions that train"].text(1) + "# filling\n" * (size // 10)
        (project / "train.py").write_text(text, encoding="utf-8")
        ran = amplint("--select", "AMP902", "--output-format", "concise")
        assert ("AMP902" in ran.out) == (size < LARGEST), ran.out


def test_whole_conversions_of_many_functions_are_told_a_few_times(amplint: Command, project: Path) -> None:
    told = []
    for functions in (2, 50, 100):
        (project / "train.py").write_text(SHAPES["functions that train"].text(functions), encoding="utf-8")
        told.append(amplint("--select", "AMP902", "--output-format", "json").out.count('"code": "AMP902"'))
    assert told[0] == 2
    assert told[1] > told[2] > 2


def test_large_input(amplint: Command, project: Path) -> None:
    (project / "amplint.toml").write_text("max-file-size = 10\n", encoding="utf-8")
    ran = amplint("-", "--fix", stdin=BAD.encode())
    assert (ran.status, ran.out) == (2, "")
    assert "larger than 10 bytes" in ran.err


def test_nul_is_seen_at_once(amplint: Command, project: Path) -> None:
    (project / "amplint.toml").write_text("max-file-size = 1_000_000_000\n", encoding="utf-8")
    with (project / "train.py").open("wb") as file:
        file.truncate(200_000_000)
    started = time.process_time()
    assert "AMP001[syntax-error] error: the file contains NUL bytes" in amplint("--output-format", "concise").out
    assert time.process_time() - started < QUICK_S


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max-file-size = 0", '"max-file-size" must be a number of bytes above 0, not 0'),
        ("max-file-size = 1.5", '"max-file-size" must be a number of bytes above 0, not 1.5'),
        ("max-seconds = true", '"max-seconds" must be a number of seconds above 0, not True'),
        ("max-seconds = nan", '"max-seconds" must be a number of seconds above 0, not nan'),
    ],
)
def test_limits_that_are_none(amplint: Command, project: Path, line: str, message: str) -> None:
    (project / "amplint.toml").write_text(line, encoding="utf-8")
    assert message in amplint().err


LONG = SHAPES["`try` in a row, an optimizer each"].text(400)
IN_FUNCTION = LONG.replace("for x in loader:", "def train():\n  for x in loader:")
IN_METHOD = LONG.replace("for x in loader:", "class Trainer:\n def train(self):\n  for x in loader:")


def analysed(text: str, seconds: float) -> list[Finding]:
    """What is found in `text` when its analysis may take so many seconds."""
    return findings_of(text, RULES, seconds=seconds)


@pytest.mark.parametrize(
    ("text", "where"), [(LONG, "the top level of the file"), (IN_FUNCTION, "`train`"), (IN_METHOD, "`Trainer.train`")]
)
def test_seconds_end(text: str, where: str) -> None:
    started = time.process_time()
    (cut,) = (finding for finding in analysed(text, 0.3) if finding.code == "AMP005")
    assert cut.message == f"The analysis stopped in {where} after 0.3 seconds; findings can be missing."
    assert time.process_time() - started < QUICK_S
    assert cut.span.start.row > 1


def test_statements_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "STEP_BUDGET", 10)
    found = {finding.code: finding for finding in analysed(BAD * 3, 10)}
    assert "after 10 statements" in found["AMP005"].message
    assert "AMP205" in found


def test_all_statements_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_STEPS", 12)
    (cut,) = (finding for finding in analysed(BAD * 3, 10) if finding.code == "AMP005")
    assert "stopped" in cut.message


def test_a_notice_is_no_error(amplint: Command, project: Path) -> None:
    (project / "amplint.toml").write_text('max-seconds = 0.0001\nmin-severity = "error"\n', encoding="utf-8")
    (project / "train.py").write_text(SHAPES["findings"].text(50), encoding="utf-8")
    for _ in range(2):  # and is not remembered
        ran = amplint("--output-format", "concise")
        assert ran.status == 0
        assert "AMP005[cut-short] info: The analysis stopped in " in ran.out
    assert amplint("convert", "--to", "amp", "train.py").status in (0, 1, 2)
    (project / "amplint.toml").write_text("", encoding="utf-8")
    ran = amplint("--output-format", "concise")
    assert ran.status == 1
    assert "AMP005" not in ran.out


CODE = "import sys; from amplint.__main__ import main; sys.argv[1:] = {}; main()"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("name", ["`try` in a row, an optimizer each", "`if a: unscale_` in a row"])
def test_an_interrupt_ends_long_work(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text(SHAPES[name].text(1_600), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-c", f"print('begun', flush=True); {CODE.format(['--no-cache', 'train.py'])}"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_values_that_double_are_given_up() -> None:
    body = "        x = [x, x]\n" * 60
    head = "import torch\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
    text = f"{head}{body}        return torch.cat(x).half()\n"
    began = time.process_time()
    found = findings_of(text, RULES, path="/a.py", seconds=0.1)
    assert [(one.code, one.message) for one in found] == [
        ("AMP005", "The analysis was ended after 1 seconds; findings can be missing.")
    ]
    assert time.process_time() - began < QUICK_S


@pytest.mark.skipif(sys.platform == "win32", reason="the system there limits no processor time")
def test_a_worker_in_an_endless_search_is_ended() -> None:
    search = "re.match('(a*)*b', 'a' * 99)"
    program = f"import re; from amplint.engine import worker; worker.GRACE_S = 1; worker.limit_time(0.1); {search}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert ran.returncode == -signal.SIGXCPU


def test_limits_beyond_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[int, tuple[int, int]]] = []
    pytest.importorskip("resource")
    monkeypatch.setattr(worker.resource, "setrlimit", lambda kind, limit: limits.append((kind, limit)))
    worker.limit_time(float("inf"))
    assert all(isinstance(soft, int) for _, (soft, _) in limits)
