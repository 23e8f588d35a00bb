"""Training scripts with a fault that mixed precision invites: a trace names its line, and nothing once it is repaired.

Those of `faults` have a line, or the lines of one mistake, marked `# culprit`; what stands behind `# repaired: ` takes
the place of the line above it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from amplint.trace.findings import findings
from amplint.trace.gpus import GPUS
from amplint.trace.record import Record
from amplint.trace.run import run
from amplint.trace.watching import Watch
from amplint.trace.window import Window

PROGRAMS = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "faults").glob("*.py"))}
COMPARED = {"policy_ratio", "timesteps", "variance_by_moments"}
"""What takes a comparison with float32."""
MISSED = {"adam_by_hand", "router_in_half"}
"""The first is named where the optimizer is stepped, the second is what the CPU's autocast does."""


def test_most_are_found() -> None:
    found, compared = len(PROGRAMS) - len(COMPARED | MISSED), len(PROGRAMS) - len(MISSED)
    assert (len(PROGRAMS), found, compared) == (48, 43, 46)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_is_named(name: str, tmp_path: Path) -> None:
    text = PROGRAMS[name]
    assert bool(rows(traced(text, tmp_path)) & culprits(text)) == (name not in COMPARED | MISSED)


@pytest.mark.parametrize("name", sorted(COMPARED | MISSED))
def test_the_line_is_named_by_a_comparison(name: str, tmp_path: Path) -> None:
    text = PROGRAMS[name]
    assert bool(rows(traced(text, tmp_path, compare=True)) & culprits(text)) == (name not in MISSED)


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_it_is_repaired_nothing_is_named(name: str, tmp_path: Path) -> None:
    assert findings(traced(repaired(PROGRAMS[name]), tmp_path)) == []


@pytest.mark.parametrize("name", PROGRAMS if os.environ.get("AMPLINT_FAULTS") else sorted(COMPARED))
def test_nor_is_anything_by_a_comparison(name: str, tmp_path: Path) -> None:
    """With AMPLINT_FAULTS in the environment of all programs, which takes half a minute."""
    assert findings(traced(repaired(PROGRAMS[name]), tmp_path, compare=True)) == []


def traced(text: str, folder: Path, *, compare: bool = False) -> Record:
    """The record that `amplint trace`, or `--compare-float32`, makes of a program; those for CUDA run dry."""
    script = folder / "train.py"
    script.write_text(text)
    watch = Watch(Window(3, 0 if compare else 1), stop=True, compare_float32=compare)
    run(str(script), (), watch, gpu=GPUS["a100"] if "cuda" in text else None)
    return watch.record


def rows(record: Record) -> set[int]:
    """The lines that findings and exceptions name."""
    return {found.span.start.row for found in findings(record)} | {one.row for one in record.failures}


def culprits(text: str) -> set[int]:
    return {row for row, line in enumerate(text.splitlines(), 1) if line.endswith("  # culprit")}


def repaired(text: str) -> str:
    return re.sub(r"(?m)^( *).*\n *# repaired: (.*)$", r"\1\2", text)
