"""What a dry run says of dtypes is what a GPU does, line by line, where there is one."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from amplint.trace.data import Operation
from amplint.trace.record import Record

PROGRAMS = sorted((Path(__file__).parent / "planted").glob("clean_*.py"))
Row = tuple[str, str, str, int]
Dtypes = set[tuple[tuple[str, ...], tuple[str, ...]]]


def by_row(record: Record) -> dict[Row, Dtypes]:
    """Phase, operator and line -> dtypes of what ran there."""
    rows: dict[Row, Dtypes] = defaultdict(set)
    for operation in record.operations:
        rows[operation.phase, operation.op, operation.filename, operation.row].add(
            (operation.inputs, operation.outputs)
        )
    return rows


def different(real: Record, dry: Record) -> tuple[dict[Row, tuple[Dtypes, Dtypes]], int]:
    """The rows of both records that differ, and how many both have: a GPU's kernels have operators of their own."""
    one, other = by_row(real), by_row(dry)
    both = one.keys() & other.keys()
    return {row: (one[row], other[row]) for row in both if one[row] != other[row]}, len(both)


def traced(program: Path, output: Path, *options: str) -> Record:
    """The record of two steps of a program."""
    command = [sys.executable, "-m", "amplint", "trace", "--steps", "2", "--skip", "0", "--numerics", "off", "-q"]
    subprocess.run([*command, *options, "--output", str(output), str(program)], capture_output=True, check=True)
    return Record.from_json(output.read_text(encoding="utf-8"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_dtypes_are_those_of_a_gpu(program: Path, tmp_path: Path) -> None:
    real = traced(program, tmp_path / "real.json")
    found, rows = different(real, traced(program, tmp_path / "dry.json", "--dry-run"))
    print(f"{program.stem}: {rows - len(found)} of {rows} rows alike")
    assert len(found) <= 0.02 * rows, found


def test_rows_that_differ_are_found() -> None:
    product = Operation("forward", "mm", "", "a.py", 3, "", ("float16", "float16"), ("float16",), "float16", "cuda")
    sums = replace(product, op="sum", inputs=("float16",), outputs=("float32",))
    real = Record(operations=Counter([product, sums, replace(product, op="flash")]))
    assert different(real, real) == ({}, 3)
    dry = Record(operations=Counter([product, replace(sums, outputs=("float16",))]))
    row = ("forward", "sum", "a.py", 3)
    assert different(real, dry) == ({row: ({(("float16",), ("float32",))}, {(("float16",), ("float16",))})}, 2)
