"""The one sentence of a run: the same in terminal, page and notebook, and never rosier than the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import amplint.trace
from amplint.reports.trace import place
from amplint.reports.verdict import Verdict, verdict
from amplint.trace.data import Failure, Histogram, NonFinite, Series
from amplint.trace.findings import findings
from amplint.trace.record import Record
from tests.trace import records


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """A run of three steps with nothing wrong."""
    monkeypatch.chdir(tmp_path)
    record = records.record(tmp_path)
    record.operations = type(record.operations)({one: 1 for one in record.operations if one.row == records.STEM})
    record.scaler_steps = [replace(step, skipped=False) for step in record.scaler_steps]
    record.nonfinite, record.histograms, record.comparison, record.series = [], [], None, []
    return record


def told(record: Record) -> Verdict:
    return verdict(record, findings(record), place)


def overflow(record: Record, phase: str = "forward", op: str = "mul") -> None:
    """Let line 9 make an inf in the first step."""
    where = (str(Path("train.py").absolute()), records.PRODUCT)
    record.nonfinite = [NonFinite(0, phase, op, f"{op}.api", *where, "", "inf", "float16", None, True)]


def test_a_clean_run(record: Record) -> None:
    assert told(record) == Verdict("3 steps trained; nothing was found", "good")
    record.scaler_steps = []
    assert told(record).text == "3 steps trained; nothing was found"
    record.numerics = "off"
    assert told(record).text == "3 steps ran, and numbers were not looked at; nothing was found"


def test_no_step_trained(record: Record) -> None:
    overflow(record)
    record.scaler_steps = [replace(step, skipped=True) for step in record.scaler_steps]
    assert told(record) == Verdict("no step of 3 trained: train.py:9 makes inf (mul in float16)", "bad")
    record.scaler_steps = []
    assert told(record).text == "train.py:9 makes inf (mul in float16) in step 1"
    record.histograms = [Histogram("gradient", "w", "float32", 1.0, {}, 0, 9)]
    assert told(record).text == "no step of 3 trained: train.py:9 makes inf (mul in float16)"
    overflow(record, "optimizer", "step")
    assert told(record).text == "no step of 3 trained: step.api at train.py:9 takes gradients that are inf"
    record.nonfinite = []
    assert told(record) == Verdict("no step of 3 trained: no gradient is finite", "bad")


def test_steps_were_skipped(record: Record) -> None:
    record.scaler_steps[0] = replace(record.scaler_steps[0], skipped=True)
    assert told(record) == Verdict("2 of 3 steps trained, and 1 was skipped; nothing was found", "good")
    overflow(record)
    assert told(record).text == "1 of 3 steps was skipped: train.py:9 makes inf (mul in float16)"
    record.nonfinite, record.scaler_steps = [], [replace(step, skipped=True) for step in record.scaler_steps]
    assert told(record) == Verdict(
        "no step of 3 trained: the scaler skipped them, at scales of 65536; nothing was found", "doubtful"
    )


def test_all_steps_of_a_long_run_count(record: Record) -> None:
    record.every, record.taken = 10, 30
    record.series = [Series("skipped", "scaler 1", "train.py", 1, (0, 15), (1.0, 4.0))]
    assert told(record).text == "26 of 30 steps trained, and 4 were skipped; nothing was found"


def test_a_run_without_steps(record: Record) -> None:
    assert told(Record()).level == "unknown"
    record.steps, record.taken, record.scaler_steps = 0, 0, []
    assert told(record).text == "no step was taken, and what ran is recorded as a whole; nothing was found"
    record.backwards = 2
    assert told(record).text.startswith("no step was recorded: backward() ran 2 times and no optimizer stepped; noth")
    record.steps, record.cut, record.taken = 3, True, 3
    record.failures = [Failure("ValueError", "no", "", "train.py", 3)]
    assert told(record).text == "the run broke off in step 4: ValueError; nothing was found"


def test_the_sentence_is_the_same_everywhere(record: Record) -> None:
    overflow(record)
    record.to_html("page.html")
    sentence = told(record).text
    assert sentence in record.summary(200)
    assert sentence in record._repr_html_()
    assert f"{sentence}." in Path("page.html").read_text(encoding="utf-8")


def test_a_real_run_that_trains_nothing() -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with amplint.trace.watch() as record:
        for _ in range(2):
            loss = model(torch.ones(2, 4)).log().mul(torch.zeros(())).sum()
            (loss / loss.detach().mul(0)).backward()
            optimizer.step()
    assert record.summary(300).splitlines()[1].startswith("no step of 2 trained: ")
