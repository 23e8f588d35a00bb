"""In training scripts with one line that spoils the step, the comparison with float32 names that line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amplint.trace.findings import findings
from amplint.trace.gpus import GPUS
from amplint.trace.record import Record
from amplint.trace.run import run
from amplint.trace.watching import Watch
from amplint.trace.window import Window
from tests.conftest import Command

PROGRAMS = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "planted").glob("*.py"))}
PLANTED = {name: text for name, text in PROGRAMS.items() if "# culprit" in text}
REPAIRED = {name: text for name, text in PLANTED.items() if "\nRepaired: " in text}
CLEAN = {name: text for name, text in PROGRAMS.items() if name not in PLANTED}
WITHIN_ROUNDING = {"plain_softmax_cast", "plain_softmax_region"}
"""Their line comes first, but makes no more of an error than rounding explains."""


def test_there_are_programs_of_each_kind() -> None:
    kinds = [name.partition("_")[0] for name in PROGRAMS]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "clean": 11, "epsilon": 9, "plain": 5, "softmax": 8, "square": 9
    }  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_the_line_that_spoils_the_step_comes_first(name: str, tmp_path: Path) -> None:
    record = compared(PLANTED[name], tmp_path)
    assert record.comparison is not None
    assert record.comparison.lines[0].row == culprit(PLANTED[name])
    assert named(record) in ([culprit(PLANTED[name])], [] if name in WITHIN_ROUNDING else None)


@pytest.mark.parametrize("name", REPAIRED)
def test_with_that_line_repaired_none_is_named(name: str, tmp_path: Path) -> None:
    assert named(compared(repaired(REPAIRED[name]), tmp_path)) == []


@pytest.mark.parametrize("name", CLEAN)
def test_where_nothing_is_wrong_no_line_is_named(name: str, tmp_path: Path) -> None:
    assert named(compared(CLEAN[name], tmp_path)) == []


def test_the_command_looks_at_the_first_step(amplint: Command, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PLANTED["plain_square"])
    ran = amplint("trace", "--dry-run", "--compare-float32", str(script))
    assert f"train.py:{culprit(PLANTED['plain_square'])}:1: AMP811" in ran.err.replace("\n", "")


def compared(text: str, folder: Path) -> Record:
    """The record of two steps of a program, dry and beside float32."""
    script = folder / "train.py"
    script.write_text(text)
    watch = Watch(Window(2), stop=True, compare_float32=True)
    assert run(str(script), (), watch, gpu=GPUS["a100"]) == 0
    return watch.record


def named(record: Record) -> list[int]:
    return [finding.span.start.row for finding in findings(record) if finding.code == "AMP811"]


def culprit(text: str) -> int:
    (row,) = [row for row, line in enumerate(text.splitlines(), 1) if line.endswith("  # culprit")]
    return row


def repaired(text: str) -> str:
    """The program with the line that its docstring gives in the place of the marked one."""
    line = re.search("^Repaired: `(.*)`$", text, re.MULTILINE)
    assert line is not None
    return re.sub(r"(?m)^( *).*  # culprit$", lambda marked: marked[1] + line[1], text)
