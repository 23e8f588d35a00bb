"""Evaluation beside training: the same casts, and one region round the forward pass and the loss."""

from __future__ import annotations

import itertools
import re
import textwrap

import pytest

from amplint.codemods import Wish, convert
from tests.codemods.running import converted

ON = re.compile(r"with .*autocast\(")

GIVEN = """import torch


def train(model, loader, criterion, optimizer):
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        {trained}


def evaluate(model, loader, criterion):
    with torch.no_grad():
        for x, y in loader:
            out = model(x.cuda())
            loss = criterion(out, y.cuda())
            {evaluated}
"""


@pytest.mark.parametrize(
    ("trained", "evaluated", "casts"),
    [
        ("print(loss.item())", "print(out.argmax(1), loss.item())", 2),
        ("print(out.argmax(1))", "print(loss.item())", 2),
        ("print(out.argmax(1))", "print(out.argmax(1))", 2),
        ("print(loss.item())", "print(loss.item())", 0),
    ],
    ids=["in evaluation alone", "in training alone", "in both", "in neither"],
)
def test_a_loss_of_unknown_kind_is_given_the_same_in_training_and_evaluation(
    trained: str, evaluated: str, casts: int
) -> None:
    conversion = convert(GIVEN.format(trained=trained, evaluated=evaluated), Wish(to="amp", dtype="bfloat16"))
    assert conversion.refused == ()
    assert len(re.findall(r"out = model\(.*\)\.float\(\)\n", conversion.text)) == casts
    assert conversion.text.count("out = to_float32(model(") == 2 - casts
    assert conversion.text.count("criterion(out, y") == 2


BRANCHES = """import torch


def train(model, loader, criterion, optimizer):
    for x, y in loader:
        out = model(x.cuda())
        if isinstance(out, list):
            loss = criterion(out[0], y)
            for one in out[1:]:
                loss += criterion(one, y)
        else:
            one = out
            loss = criterion(one, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(one.argmax(1))
"""


def test_so_it_is_in_the_branches_of_a_condition() -> None:
    conversion = convert(BRANCHES, Wish(to="amp"))
    assert conversion.refused == ()
    assert "            out = to_float32(model(x.cuda()))\n        if isinstance(out, list):\n" in conversion.text


SCRIPT = """import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x), self.layer(x + 1)


def hit_rate(out, y):
    return ((out > 0).numpy() == (y > 0).numpy()).mean()


def scale(loss):
    return loss.item() / 2


deep = True
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.MSELoss()
data = [(torch.randn(8, 4), torch.randn(8, 4)) for _ in range(4)]
found = []
for x, y in data:
{trained}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    found.append(loss.item())
model.eval()
for x, y in data:
{evaluated}
    found.append(loss.item())
"""
BRANCHED = """if deep:
    outs = model(x)
    loss = 0
    for out in outs:
        loss += criterion(out, y)
    rate = hit_rate(outs[-1].detach(), y)
else:
    out, _ = model(x)
    loss = criterion(out, y)
    rate = hit_rate(out.detach(), y)
"""
PLAIN = "out, far = model(x)\nloss = criterion(out, y)\n"
WITHOUT = "with torch.no_grad():\n"


def _of(trained: str, evaluated: str) -> str:
    """The conversion of `SCRIPT`, which computes what it did before."""
    text = SCRIPT.format(trained=textwrap.indent(trained, "    "), evaluated=textwrap.indent(evaluated, "    "))
    before: dict[str, list[float]] = {}
    after: dict[str, list[float]] = {}
    exec(text, before)
    result = converted(text, Wish(to="amp", device="cpu", dtype="bfloat16"))
    exec(result, after)
    assert max(abs(a - b) for a, b in zip(after["found"], before["found"], strict=True)) < 0.05
    return result[result.index("model.eval()") :]


def test_a_condition_that_training_has_too_gets_a_region_in_each_branch() -> None:
    evaluated = _of(BRANCHED, WITHOUT + textwrap.indent(BRANCHED, "    "))
    assert len(ON.findall(evaluated)) == 2
    assert "outs = tuple(output.float() for output in model(x))\n            loss = " in evaluated
    assert "out, _ = to_float32(model(x))\n            loss = " in evaluated


def test_another_condition_gets_none_round_its_metrics() -> None:
    other = BRANCHED.replace("if deep", "if not deep or x.sum() > -100")
    evaluated = _of(BRANCHED, WITHOUT + textwrap.indent(other, "    "))
    lines = evaluated.splitlines()
    assert not any(ON.search(above) and "hit_rate" in line for above, line in itertools.pairwise(lines))


def test_forward_passes_under_try_get_regions_and_the_loss_below_float32() -> None:
    tried = "try:\n    out, far = model(x.view(8, 4))\nexcept RuntimeError:\n    out, far = model(x)\n"
    tried += "loss = criterion(out, y)\n"
    evaluated = _of(tried, WITHOUT + textwrap.indent(tried, "    "))
    assert len(ON.findall(evaluated)) == 2
    wide = "out, far = (output.float() for output in model(x))"
    assert f"                {wide}\n        loss = criterion(out, y)\n" in evaluated


LONG = """    out, far = model(x)
shifted = y + 1
near = F.mse_loss(out, y, reduction="none")
near = near.sum(axis=1)
near = near.mean()
spread = 0.5 * torch.sum(out.exp() - out - 1, axis=1)
{between}
loss = criterion(far, shifted) + near / 8
"""


def test_a_block_without_gradients_gives_the_losses_below_it_float32() -> None:
    long = WITHOUT + LONG.format(between="spread = spread.mean()")
    trained = textwrap.dedent(long.removeprefix(WITHOUT).replace("    out", "out"))
    evaluated = _of(trained, long)
    assert len(ON.findall(evaluated)) == 1
    assert "    with torch.no_grad(), torch.autocast(" in evaluated
    assert "        out, far = (output.float() for output in model(x))\n    shifted = y + 1\n" in evaluated


def test_what_leaves_the_tensors_ends_it() -> None:
    long = WITHOUT + LONG.format(between="print(spread.mean().item())")
    trained = textwrap.dedent(long.removeprefix(WITHOUT).replace("    out", "out"))
    evaluated = _of(trained, long)
    assert "print(" in evaluated
    assert not re.search(r"^        print\(", evaluated, re.MULTILINE)


ANCHORS = """import torch
from models import Net, Priors

net = Net().cuda()
{name} = Priors()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with torch.no_grad():
    made = {call}
    made = made.cuda()
for x, y in [(torch.randn(8, 4).cuda(), torch.randn(8, 3).cuda())]:
    # forward
    out = net(x)

    # {comment}
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(out, y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("name", "call", "regions"), [("priors", "priors.forward()", 1), ("net", "net(made)", 2)])
def test_what_is_computed_of_nothing_gets_no_region(name: str, call: str, regions: int) -> None:
    conversion = convert(ANCHORS.format(name=name, call=call, comment="backward"), Wish(to="amp", dtype="bfloat16"))
    assert conversion.refused == ()
    assert len(ON.findall(conversion.text)) == regions


@pytest.mark.parametrize(("comment", "moves"), [("backward pass", True), ("mean squares", False)])
def test_a_comment_on_gradients_moves_with_them(comment: str, moves: bool) -> None:
    text = ANCHORS.format(name="priors", call="priors.forward()", comment=comment)
    result = convert(text, Wish(to="amp", dtype="bfloat16")).text
    assert (f"    # {comment}\n    optimizer.zero_grad()" in result) is moves
    assert (f"        # {comment}\n        loss = " in result) is not moves


CHECKED = """def checked(model, x, y):
    out, far = model(x)
    return criterion(out, y)
"""


def test_a_call_of_a_function_with_a_region_gets_none() -> None:
    text = SCRIPT.replace("deep = True\n", "@@\n\n\ndeep = True\n").replace("@@", CHECKED)
    text = text.format(trained=textwrap.indent(PLAIN, "    "), evaluated="    loss = checked(model, x, y)")
    text = text.replace("    loss = checked", "    with torch.no_grad():\n        loss = checked")
    result = converted(text, Wish(to="amp", device="cpu", dtype="bfloat16"))
    assert "    with torch.no_grad():\n        loss = checked(model, x, y)\n" in result
    assert len(ON.findall(result)) == 2
