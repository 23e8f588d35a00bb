"""Losses of evaluation beside the region whose result they take."""

from __future__ import annotations

import pytest

from amplint.codemods import Wish, convert
from tests.codemods.running import converted

SCRIPT = """import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
criterion = nn.L1Loss()
data = [(torch.randn(8, 4), torch.randn(8) * 8 + 75) for _ in range(4)]
labels = torch.cat([label for _, label in data])
mean, deviation = labels.mean(), labels.std()
found = []


def run(train):
    for x, label in data:
        {forward}
        if train:
            optimizer.zero_grad()
            loss = criterion(pred, (label - mean) / deviation)
            loss.backward()
            optimizer.step()
        else:
            {loss}
            found.append(loss.item())


run(True)
run(False)
"""
FORWARD = "pred = model(x).squeeze()"
LOSS = "loss = criterion(deviation * pred + mean, label)"
ON = "with torch.autocast(device_type="


def test_it_gets_a_region_and_computes_in_float32() -> None:
    text = SCRIPT.format(forward=FORWARD, loss=LOSS)
    before: dict[str, list[float]] = {}
    after: dict[str, list[float]] = {}
    exec(text, before)
    result = converted(text, Wish(to="amp", dtype="bfloat16", device="cpu"))
    assert f'            {ON}"cpu", dtype=torch.bfloat16):\n                loss = criterion(' in result
    assert "criterion(deviation * pred.float() + mean, label)" in result
    exec(result, after)
    assert max(abs(a - b) for a, b in zip(after["found"], before["found"], strict=True)) < 0.05
    assert convert(result, Wish(to="amp", dtype="bfloat16", device="cpu")).text == result


@pytest.mark.parametrize(
    ("forward", "loss", "regions"),
    [
        (
            "with torch.set_grad_enabled(train):\n            pred = model(x).squeeze()",
            "loss = criterion(pred, label)",
            3,
        ),
        (FORWARD, "pred = pred.view(-1)\n            loss = criterion(pred, label)", 3),
        (FORWARD, "pred = pred.float()\n            loss = criterion(pred, label)", 2),
        (FORWARD, "loss = criterion(pred.float(), label)", 2),
        (FORWARD, "loss = criterion(label, label + 1)", 2),
    ],
    ids=["in a block", "passed on", "converted", "converted there", "of something else"],
)
def test_only_what_takes_half_does(forward: str, loss: str, regions: int) -> None:
    result = converted(SCRIPT.format(forward=forward, loss=loss), Wish(to="amp", device="cpu"))
    assert result.count(ON) == regions
    exec(result, {})


def test_in_another_block_too() -> None:
    text = SCRIPT.replace("        else:\n            {loss}\n            found", "        {loss}\n        found")
    result = converted(text.format(forward=FORWARD, loss="loss = criterion(pred, label)"), Wish(to="amp", device="cpu"))
    assert result.count(ON) == 3
