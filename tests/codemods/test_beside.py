"""Losses of evaluation, of one's own and of other libraries beside the region whose result they take."""

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


def test_it_computes_in_float32() -> None:
    text = SCRIPT.format(forward=FORWARD, loss=LOSS)
    before: dict[str, list[float]] = {}
    after: dict[str, list[float]] = {}
    exec(text, before)
    result = converted(text, Wish(to="amp", dtype="bfloat16", device="cpu"))
    region = f'        {ON}"cpu", dtype=torch.bfloat16):\n            pred = model(x).float().squeeze()\n'
    assert region in result
    assert f"            {LOSS}\n" in result
    exec(result, after)
    assert max(abs(a - b) for a, b in zip(after["found"], before["found"], strict=True)) < 0.05
    assert convert(result, Wish(to="amp", dtype="bfloat16", device="cpu")).text == result


@pytest.mark.parametrize(
    ("forward", "loss"),
    [
        (
            "with torch.set_grad_enabled(train):\n            pred = model(x).squeeze()",
            "loss = criterion(pred, label)",
        ),
        (FORWARD, "pred = pred.view(-1)\n            loss = criterion(pred, label)"),
        (FORWARD, "pred = pred.float()\n            loss = criterion(pred, label)"),
        (FORWARD, "loss = criterion(pred.float(), label)"),
        (FORWARD, "loss = criterion(label, label + 1)"),
    ],
    ids=["in a block", "passed on", "converted", "converted there", "of something else"],
)
def test_it_needs_no_region(forward: str, loss: str) -> None:
    result = converted(SCRIPT.format(forward=forward, loss=loss), Wish(to="amp", device="cpu"))
    assert result.count(ON) == 1
    assert "pred = model(x).float().squeeze()\n" in result
    assert f"            {loss}\n" in result
    exec(result, {})


def test_nor_in_another_block() -> None:
    text = SCRIPT.replace("        else:\n            {loss}\n            found", "        {loss}\n        found")
    result = converted(text.format(forward=FORWARD, loss="loss = criterion(pred, label)"), Wish(to="amp", device="cpu"))
    assert result.count(ON) == 1
    assert "            pred = model(x).float().squeeze()\n" in result


OWN = """import torch
import visdom
from losses import build_loss
from models import Net

model = Net().cuda()
criterion = build_loss("dice")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
board = visdom.Visdom()
for x, y in [(torch.randn(8, 4).cuda(), torch.randn(8, 3).cuda())]:
    optimizer.zero_grad()
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    {use}
"""


@pytest.mark.parametrize(
    ("use", "known"),
    [
        ("print(out.argmax(1))", True),
        ("print(torch.max(out, 1))", True),
        ("print(2 * out)", True),
        ("print(loss.item())", False),
        ("near, far = out", False),
        ("print(out['scores'].argmax(1), out.shape)", False),
        ("print(torch.cat(out))", False),
    ],
)
def test_a_loss_of_ones_own_gets_float32(use: str, known: bool) -> None:
    conversion = convert(OWN.format(use=use), Wish(to="amp"))
    assert conversion.refused == ()
    made = "model(x).float()" if known else "to_float32(model(x))"
    assert f"        out = {made}\n    loss = criterion(out, y)\n" in conversion.text
    assert conversion.left == ()


@pytest.mark.parametrize(
    ("use", "made"),
    [
        ("board.images(out.relu())", "model(x).float()"),
        ("board.images(out.float())", "model(x).float()"),
        ("board.line([loss])", "to_float32(model(x))"),
        ("board.images(x)", "to_float32(model(x))"),
        ("board.text(str(out.size()))", "model(x).float()"),
    ],
)
def test_what_other_libraries_are_given_is_float32(use: str, made: str) -> None:
    conversion = convert(OWN.format(use=use), Wish(to="amp", dtype="bfloat16"))
    assert f"        out = {made}\n" in conversion.text
    assert conversion.left == ()


DECODED = """import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5")
model = AutoModel.from_pretrained("t5").cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in [{"x": torch.ones(2, 4).cuda()}]:
    optimizer.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    made = model(torch.ones(2, 4).cuda())
texts = tokenizer.DECODE(made)
"""


@pytest.mark.parametrize("decode", ["batch_decode", "decode", "pad"])
def test_a_tokenizer_is_given_no_half(decode: str) -> None:
    conversion = convert(DECODED.replace("DECODE", decode), Wish(to="amp"))
    assert (
        f"    made = to_float32(model(torch.ones(2, 4).cuda()))\ntexts = tokenizer.{decode}(made)\n" in conversion.text
    )
    assert conversion.left == ()
