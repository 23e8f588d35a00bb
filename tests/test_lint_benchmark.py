"""The benchmark of linting, on a repository that is written here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.executions import Executed, read
from benchmarks.irrelevant import irrelevant
from benchmarks.lint_targets import Amount, Target
from benchmarks.public import COMMITS, COMPARED, TRAINING, TREES

SCRIPT = """\
import torch

def train(model, optimizer, scaler, loader):
    for batch in loader:
        with torch.autocast("cuda"):
            loss = model(batch).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def measured(*arguments: str) -> str:
    """What the benchmark prints. It waits for all its children, so it is a process of its own."""
    command = [sys.executable, "-m", "benchmarks.lint", *arguments]
    return subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True).stdout


def test_what_is_there_is_measured_and_the_rest_is_named(tmp_path: Path) -> None:
    repository = tmp_path / "karpathy" / "nanoGPT"
    repository.mkdir(parents=True)
    (repository / "train.py").write_text(SCRIPT)
    said = measured("--repositories", str(tmp_path), "--only", "nanoGPT", "--runs", "1")
    said += measured("--repositories", str(tmp_path), "--only", "DPVO")
    assert "karpathy/nanoGPT/train.py / libcst" in said
    assert "executions per statement, 1 scripts" in said
    assert "princeton-vl/DPVO is not there: skipped" in said
    assert [path.name for path in repository.iterdir()] == ["train.py"]


def test_a_run_that_was_ended_leaves_whole_lines() -> None:
    line = '{"path": "train.py", "seconds": 0.5, "executions": 12, "distinct": 4}'
    assert read(f"{line}\n{line[:20]}") == [Executed("train.py", 0.5, 12, 4)]
    assert Executed("train.py", 0.5, 12, 4).each == 3


@pytest.mark.parametrize(
    ("amount", "met"),
    [(None, "not measured"), (Amount(2), "yes"), (Amount(2, True), "unknown"), (Amount(3, True), "no")],
)
def test_a_target_is_met_where_the_amount_is_known(amount: Amount | None, met: str) -> None:
    assert Target("", amount, 2).met == met


def test_every_repository_has_a_commit() -> None:
    names = {"/".join(name.split("/")[:2]) for name in (*COMPARED, *TREES, *TRAINING)}
    assert names == COMMITS.keys()
    assert len(TRAINING) == 30


def test_irrelevant_code_is_python_of_the_length_asked_for() -> None:
    code = irrelevant(300)
    compile(code, "irrelevant.py", "exec")
    assert 270 <= code.count("\n") <= 300


def test_irrelevant_code_adds_no_execution(tmp_path: Path) -> None:
    paths = tmp_path / "train.py", tmp_path / "longer.py"
    for path, more in zip(paths, ("", irrelevant(300)), strict=True):
        path.write_text(SCRIPT + more)
    command = [sys.executable, "-m", "benchmarks.executions", *map(str, paths)]
    printed = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True).stdout
    plain, longer = read(printed)
    assert plain.executions > 0
    assert longer.executions == plain.executions
