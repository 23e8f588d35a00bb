"""What is different in a second run: `amplint trace diff`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from amplint.cli.main import main
from amplint.reports.difference import Run, difference
from amplint.reports.text import columns
from amplint.trace.data import Operation, digest
from amplint.trace.findings import findings
from amplint.trace.record import Record
from tests.trace import records


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    monkeypatch.chdir(tmp_path)
    return records.record(tmp_path)


def run(record: Record) -> Run:
    """A record with its findings."""
    return Run(record, findings(record))


def fixed(record: Record, moved: int = 0, filename: str = "") -> Record:
    """The record of a run in which nothing went wrong, with lines from the product on `moved` down."""

    def after(operation: Operation) -> Operation:
        row = operation.row + (moved if operation.row >= records.PRODUCT else 0)
        half = operation.op == "mm" and operation.phase == "forward"
        dtypes = {"inputs": ("float16",), "outputs": ("float16",)} if half else {}
        return replace(operation, row=row, filename=filename or operation.filename, **dtypes)  # type: ignore[arg-type]

    return replace(
        record,
        operations=Counter({after(operation): count for operation, count in record.operations.items()}),
        seconds={},
        scaler_steps=[replace(step, skipped=False, after=step.scale) for step in record.scaler_steps],
        nonfinite=[],
        comparison=None,
        held=[replace(each, dtype="float16") for each in record.held],
        series=[replace(one, values=(2.5, 2.25, 2.0)) for one in record.series if one.what == "loss"],
    )


def test_what_a_fix_changed(record: Record) -> None:
    text = difference(run(record), run(fixed(record)))
    assert text == (
        """\
before: 3 steps on cpu: 2 of 3 steps trained, and 1 was skipped; train.py:9: mm
  ran in float32, 24 times, in a region of float16
  (model.<script>alert('module')</script>)
after: 3 steps on cpu: 3 steps trained; train.py:26: AdamW steps float16
  parameters: model.<script>alert('module')</script>.weight

findings:
  - train.py:9: AMP801 mm ran in float32, 24 times, in a region of float16
    (model.<script>alert('module')</script>)
  - train.py:9: AMP811 this line leads to NaN that float32 does not have: mm in
    float16 (model.<script>alert('module')</script>)
  + train.py:26: AMP807 AdamW steps float16 parameters:
    model.<script>alert('module')</script>.weight

lines that compute in other dtypes:
  train.py:9  mm(x.float(), model.mix, out=out)
      forward   float32, casts to float32  ->  float16, casts to float32

steps:
  skipped: 1 of 3 -> 0 of 3
  last loss: inf or NaN -> 2

where inf and NaN come from:
  - train.py:7: inf, backward of mul in float16, step 3

parameters:
  before: AdamW 1 in float32
  after: AdamW 1 in float16
"""
    )
    assert max(map(columns, text.splitlines())) <= 80


def test_nothing_is_different(record: Record) -> None:
    text = difference(run(record), run(record))
    assert text.count("2 of 3 steps trained") == 2
    assert text.endswith("(model.<script>alert('module')</script>)\n\nnothing is different\n")


def test_lines_are_known_by_what_they_call(record: Record) -> None:
    name = str(Path("train.py").absolute())
    record.sources[name] = digest(records.SOURCE.encode())
    after = fixed(record, moved=3)
    after.sources = {name: digest(b"other")}
    text = difference(run(record), run(after))
    assert "  train.py:9 -> 12" in text
    assert "only" not in text
    other = str(Path("fixed.py").absolute())
    text = difference(run(record), run(fixed(record, moved=3, filename=other)))
    assert "  train.py:9 -> 12" in text


def test_lines_that_are_new(record: Record) -> None:
    after = fixed(record)
    new = next(operation for operation in after.operations if operation.op == "mm")
    after.operations[replace(new, op="exp", api="torch.exp", row=8)] = 1
    text = difference(run(record), run(after))
    assert "lines that ran after only:\n  train.py:8  forward float16\n" in text
    assert "lines that ran before only" not in text
    assert "lines that ran before only:\n  train.py:8  forward float16\n" in difference(run(after), run(record))


def test_a_run_without_anything(record: Record) -> None:
    text = difference(run(Record()), run(record))
    assert "before: no steps on no device: no step was recorded" in text
    assert "  loss scale: none -> 65536\n" in text


def test_the_command(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    Path("before.json").write_text(record.to_json(), encoding="utf-8")
    Path("after.json").write_text(fixed(record).to_json(), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["trace", "diff", "before.json", "after.json"])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert out == difference(run(record), run(fixed(record)))
    assert not err
    with pytest.raises(SystemExit) as ended:
        main(["trace", "diff", "before.json", "train.py"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("Error: train.py: not a trace")
