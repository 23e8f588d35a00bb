"""The summary of a run on the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from amplint.reports.exponents import Range, rescaled, shares, summed
from amplint.reports.ran import lines, share
from amplint.reports.text import columns
from amplint.reports.trace import summary
from amplint.trace.data import Histogram
from amplint.trace.findings import findings
from amplint.trace.record import Record
from tests.trace import records


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    monkeypatch.chdir(tmp_path)
    return records.record(tmp_path)


def test_the_worst_comes_first(record: Record) -> None:
    assert [line.row for line in lines(record, findings(record))] == [records.PRODUCT, records.STEM]
    assert [line.row for line in lines(record, [])] == [records.PRODUCT, records.STEM]
    for op in [op for op in record.operations if op.op != "_to_copy"]:
        del record.operations[op]
    assert record.operations.total() == 72
    assert [line.row for line in lines(record, [])] == [records.PRODUCT, records.STEM]


def test_a_run_in_few_lines(record: Record) -> None:
    text = summary(record, findings(record))
    assert text == (
        """\
3 steps on cpu, torch 2.13.0
2 of 3 steps trained, and 1 was skipped; train.py:9: mm ran in float32, 24
  times, in a region of float16 (model.<script>alert('module')</script>)

line by line, worst first:
  train.py:9  mm(x.float(), model.mix, out=out)             AMP801, AMP811  60 %
      forward  float16 -> float32  _to_copy x24
               float32             mm x24
  train.py:7  x = model.stem(x)                                             40 %
      forward   float32 -> float16  _to_copy x48
                float16             addmm x24
      backward  float16             mm x48

against float32, 3 steps, what lines add to the relative error (rounding
  explains 0.016):
  train.py:9  mm(x.float(), model.mix, out=out)            NaN  mm, float16
  train.py:7  x = model.stem(x)                            +0.25  addmm, float16
  the first module to be off by more: model.<script>alert('module')</script>
  outputs that are off most: model.<script>alert('module')</script> inf or NaN
  gradients that are off most: model.<script>alert('module')</script>.weight
    0.062
  not compared, and taken for right: frobnicate

loss scale:
  steps 1 to 2: 65536  AdamW stepped
  step 3: 65536 -> 32768  AdamW skipped: gradients were inf or NaN

numbers:
  gradients go from 2^-32 to 2^0, float16 from 2^-24 to 2^15
  as float16 without a loss scale: 20 % of them underflow to 0
  with the scale in use, 65536: 0 %, 0.1 % overflow
  train.py:7 loses most by float16 (backward of mm): 3 % to 0, 0.2 % to inf
  first inf: train.py:7, step 3, backward of mul in float16

float8 operands of products:
  float8_e4m3fn: 1 operand, the largest numbers from 1.5 to 1.5, scales from
    0.12 to 0.12; they fill at least 2.7 % of the format's 448

parameters:
  AdamW: 1 in float32, state in float32
"""
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_terminal(record: Record, width: int) -> None:
    for index, op in enumerate(list(record.operations) * 9):
        record.operations[replace(op, op=f"{op.op}_{index}")] = 1000
    text = summary(record, findings(record), width)
    by_line, history, numbers = text.index("by line"), text.index("loss scale:"), text.index("numbers:")
    assert max(map(columns, (text[by_line:history] + text[numbers:]).splitlines())) <= width


def test_nothing_was_seen() -> None:
    told = (
        "no steps on no device, torch 2.13.0\nno step was recorded: no operation ran in the process that is watched\n"
    )
    assert summary(Record(torch="2.13.0"), []) == told


def test_what_a_format_makes_of_exponents(record: Record) -> None:
    half = Range.of("float16")
    assert half == Range("float16", -24, -14, 15)
    assert Range.of("bfloat16") == Range("bfloat16", -133, -126, 127)
    gradients = [histogram for histogram in record.histograms if histogram.what == "gradient"]
    scaled, bare = (shares(summed(gradients, unscaled=unscaled), half) for unscaled in (False, True))
    assert (scaled.numbers, scaled.lost, scaled.coarse, scaled.over) == (1000, 0, 100, 1)
    assert (bare.numbers, bare.lost, bare.coarse, bare.over) == (1000, 200, 600, 0)


def test_gradients_move_by_the_loss_scale() -> None:
    bare = Histogram("gradient", "w", "float32", 1.0, {-30: 4, -20: 6}, 0, 0)
    assert rescaled([bare]) == ({-14: 4, -4: 6}, 65536.0)
    assert rescaled([replace(bare, scale=2.0**20)]) == ({-50: 4, -40: 6}, 1.0)


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 0, "0 %"), (0, 5, "0 %"), (1, 3, "33 %"), (1, 30, "3.3 %"), (1, 10**6, "< 0.01 %"), (5, 5, "100 %")],
)
def test_shares_are_told_shortly(part: float, whole: float, text: str) -> None:
    assert share(part, whole) == text
