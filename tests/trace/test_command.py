"""`amplint trace`: the script runs as it would alone, and what was seen of it is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.trace.data import SCHEMA
from amplint.trace.record import Record
from amplint.trace.run import run as watched
from amplint.trace.watching import Watch
from amplint.trace.window import Window
from tests.trace.forked import python

SCRIPT = """\
import sys
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.ones(2, 4)).sum()
    loss.backward()
    optimizer.step()
    print("step", step, sys.argv[1:], __name__)
"""


def environment() -> dict[str, str]:
    """What commands find."""
    return {**os.environ, "COLUMNS": "100", "PYTHONWARNINGS": "ignore"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with `arguments` in `folder`."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )


def trace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `amplint trace` with `arguments` in `folder`."""
    return python(folder, environment(), "-m", "amplint", "trace", *arguments)


def trace_afresh(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in a process that is started for it."""
    return run(folder, "-m", "amplint", "trace", *arguments)


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    return "train.py"


def test_the_script_ends_behind_the_window(tmp_path: Path, script: str) -> None:
    options = ("--steps", "2", "--numerics", "full", "--output", "trace.json")
    ran = trace(tmp_path, *options, script, "--lr", "0.1", "-q", "x y")
    assert ran.stdout.splitlines() == [f"step {step} ['--lr', '0.1', '-q', 'x y'] __main__" for step in range(2)]
    assert ran.returncode == 0
    assert "2 steps on cpu" in ran.stderr
    assert Record.from_json((tmp_path / "trace.json").read_text(encoding="utf-8")).numerics == "full"
    assert "bfloat16 addmm x2" in " ".join(ran.stderr.split())


def test_one_step_of_several_over_the_whole_script(tmp_path: Path, script: str) -> None:
    ran = trace(tmp_path, "--every", "2", "--output", "trace.json", script, "--lr", "0.1")
    assert len(ran.stdout.splitlines()) == 5
    record = Record.from_json((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert (record.steps, record.every, record.taken) == (2, 2, 5)
    assert record.command == ("train.py", "--lr", "0.1")
    assert [(one.what, one.steps) for one in record.series][:1] == [("loss", (1, 3))]
    assert ran.stderr.splitlines()[1] == "2 steps trained; nothing was found"


def test_the_script_can_go_on(tmp_path: Path, script: str) -> None:
    ran = trace_afresh(tmp_path, "--then", "continue", "--output", "trace.json", script, "x")
    alone = run(tmp_path, script, "x")
    assert (ran.returncode, ran.stdout) == (alone.returncode, alone.stdout)
    record = Record.from_json((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert record.steps == 3
    assert json.loads(record.to_json())["schema"] == SCHEMA


ENDINGS = [
    *("sys.exit(3)", "sys.exit('over')", "sys.exit()", "1 / 0", "raise KeyError('é')", "assert 0", "pass"),
    "import torch; torch.ones(2, requires_grad=True).backward()",
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_end_of_a_script_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    (tmp_path / "train.py").write_text(f"import sys\nprint('here')\n\ndef end():\n    {ending}\n\nend()\n")
    alone = run(tmp_path, "train.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    status = watched("train.py", (), Watch(Window()))
    seen = capsys.readouterr()
    here = f"{tmp_path}{os.sep}"
    assert (status, seen.out) == (alone.returncode, alone.stdout)
    assert seen.err.replace(here, "") == alone.stderr.replace(here, "")


def test_a_module_of_a_package(tmp_path: Path) -> None:
    package = tmp_path / "tools"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "other.py").write_text("NAME = 'other'\n")
    (package / "train.py").write_text("from .other import NAME\nimport sys\nprint(NAME, sys.argv[1:], __package__)\n")
    ran = trace(tmp_path, "-q", "-m", "tools.train", "--flag")
    assert (ran.returncode, ran.stdout) == (0, "other ['--flag'] tools\n"), ran.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("missing.py",), "missing.py: No such file"),
        (("-m", "no.such.module"), "no.such"),
        (("broken.py",), "broken.py"),
        (("--steps", "0", "train.py"), "--steps"),
    ],
)
def test_nothing_to_run(tmp_path: Path, script: str, arguments: tuple[str, ...], why: str) -> None:
    (tmp_path / "broken.py").write_text("def (\n")
    ran = trace(tmp_path, *arguments)
    assert ran.returncode == 2
    assert why in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_finding_can_fail_the_run(tmp_path: Path) -> None:
    slow = SCRIPT.replace("model(torch.ones(2, 4))", "torch.mm(torch.ones(2, 4), model.weight, out=torch.ones(2, 4))")
    text = slow.replace(".backward()", "").replace("requires_grad", "").replace("model.weight", "model.weight.detach()")
    (tmp_path / "train.py").write_text(text)
    ran = trace(tmp_path, "-q", "--fail-on", "warning", "train.py")
    assert ran.returncode == 1
    assert "train.py:8:1: AMP801 float32-matmul-in-region [warning]" in ran.stderr
    assert trace(tmp_path, "-q", "--fail-on", "error", "train.py").returncode == 0
    assert trace(tmp_path, "-q", "train.py").returncode == 0


def test_an_exception_that_a_script_catches_broadly_does_not_keep_it_running(tmp_path: Path) -> None:
    lines = SCRIPT.splitlines()
    body = [f"    {line}" for line in lines[6:]]
    guarded = [*lines[:6], "    try:", *body, "    except Exception:", "        pass"]
    (tmp_path / "train.py").write_text("\n".join(guarded) + "\n")
    ran = trace(tmp_path, "-q", "--steps", "1", "--skip", "0", "train.py")
    assert (ran.returncode, ran.stdout) == (0, "")


def test_a_record_is_reported_again(tmp_path: Path, script: str) -> None:
    ran = trace(tmp_path, "run", "--output", "trace.json", script)
    again = trace(tmp_path, "report", "trace.json")
    assert (again.returncode, again.stdout, again.stderr) == (0, ran.stderr, "")


@pytest.mark.parametrize("text", ["{}", "\udcff", None])
def test_what_is_no_record_is_not_reported(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "trace.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    ran = trace(tmp_path, "report", "trace.json")
    assert ran.returncode == 2
    assert "trace.json: " in ran.stderr
    assert "Traceback" not in ran.stderr
