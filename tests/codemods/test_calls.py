"""Functions are told apart by what their calls run, not by what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Wish, convert
from tests.codemods.running import LOOP

ALIKE = """import torch
from torch import nn
from torchmetrics import MeanMetric


class Penalty:
    def compute(self, loss):
        loss.backward()


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
penalty = Penalty()
metric = MeanMetric()
for x in [torch.ones(2, 4)]:
    optimizer.zero_grad()
    loss = model(x).mean()
    penalty.compute(loss)
    optimizer.step()
    print(metric.compute(loss))
"""
TWICE = """import torch
from torch import nn


class Meter:
    def __init__(self):
        self.total = 0.0

    def update(self, value):
        self.total += value


class Trainer:
    def __init__(self, model):
        self.model = model

    def update(self, optimizer, x):
        optimizer.zero_grad()
        loss = self.model(x).mean()
        loss.backward()
        optimizer.step()
        return loss.item()


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trainer, meter = Trainer(model), Meter()
for x in [torch.ones(2, 4)]:
    meter.update(trainer.update(optimizer, x))
"""


def test_a_call_of_something_else_is_left_alone() -> None:
    conversion = convert(ALIKE, Wish(to="amp"))
    assert conversion.refused == ()
    assert "    penalty.compute(loss, scaler)\n" in conversion.text
    assert "    print(metric.compute(loss))\n" in conversion.text


def test_methods_of_one_name_are_told_apart() -> None:
    conversion = convert(TWICE, Wish(to="amp"))
    assert conversion.refused == ()
    assert "    def update(self, value):\n" in conversion.text
    assert "    def update(self, optimizer, scaler, x):\n" in conversion.text
    assert "    meter.update(trainer.update(optimizer, scaler, x))\n" in conversion.text


def test_a_call_of_something_unknown_is_in_the_way() -> None:
    text = ALIKE.replace("metric = MeanMetric()\n", "metric = pick()\n")
    conversion = convert(text, Wish(to="amp"))
    assert conversion.text == text
    assert [remark.row for remark in conversion.refused] == [8]


@pytest.mark.parametrize("wish", [Wish(accumulate=4), Wish(to="amp")])
def test_functions_of_other_files_are_not_looked_into(tmp_path: Path, wish: Wish) -> None:
    (tmp_path / "objective.py").write_text(
        "def reduced(out):\n    return out.pow(2).mean()\n\n\ndef objective(out):\n    return reduced(out)\n"
    )
    text = "from objective import objective\n" + LOOP.replace("model(x).mean()", "objective(model(x))")
    conversion = convert(text, wish, str(tmp_path / "train.py"))
    assert conversion.refused == ()
    assert conversion.done
