"""Gradients that a scaler would have to know are refused in float16, and left alone in bfloat16."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Wish, convert
from amplint.source.source import Source
from amplint.training import hazards

TRAIN = """import torch
from parts import Part

net, part = torch.nn.Linear(4, 4).cuda(), Part().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    out = net(x)
    loss = out.mean() + part(x, out.detach(), net)
    loss.backward()
    optimizer.step()
"""
PARTS = """import torch
from torch import nn


class Part(nn.Module):
    def forward(self, x, y, net):
{body}
"""
BASE = """import torch


class Job:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run(self, batches):
        for batch in batches:
            self.optimizer.zero_grad()
            self.process(batch)
            penalty = self.model(batch).pow(2).mean()
            penalty.backward()
            self.optimizer.step()

    def process(self, batch):
        raise NotImplementedError
"""
DERIVED = """from base import Job


class Own(Job):
    def process(self, batch):
        loss = self.model(batch).mean()
        {work}
"""
SEVERAL = """import torch

net, critics = torch.nn.Linear(4, 4).cuda(), [torch.nn.Linear(4, 1).cuda() for _ in range(2)]
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def made():
    found = []
    for one in critics:
        opt = torch.optim.SGD(one.parameters(), lr=0.1)
        found.append(opt)
    return found


optimizersD = made()
for x in [torch.ones(2, 4).cuda()]:
    for i in range(len(critics)):
        critics[i].zero_grad()
        error = critics[i](net(x).detach()).mean()
        error.backward()
        optimizersD[i].step()
    optimizer.zero_grad()
    loss = -critics[0](net(x)).mean()
    loss.backward()
    optimizer.step()
"""


def test_a_hook_that_clips_is_refused(tmp_path: Path) -> None:
    """It is given gradients that carry the scale."""
    body = (
        "        out = net(x)\n        out.register_hook(lambda g: g.clamp(-10, 10))\n"
        "        return (out - y).abs().mean()"
    )
    (tmp_path / "parts.py").write_text(PARTS.format(body=body), encoding="utf-8")
    path = str(tmp_path / "train.py")
    refused = convert(TRAIN, Wish(to="amp"), path)
    assert refused.text == TRAIN
    assert [(one.row, one.text.partition(": ")[0]) for one in refused.refused] == [(8, "parts.py:8")]
    assert convert(TRAIN, Wish(to="amp", dtype="bfloat16"), path).refused == ()


@pytest.mark.parametrize(
    ("call", "is_told"),
    [
        ("torch.autograd.grad(far, d)", True),
        ("torch.autograd.grad(scaler.scale(far), d)", False),
        ("torch.autograd.grad(far, d, create_graph=True)", False),
    ],
)
def test_gradients_of_an_inner_step_carry_no_scale(call: str, *, is_told: bool) -> None:
    """They are float16 and end training in it, unlike those that are differentiated again."""
    source = Source("", f"def inner(far, d, scaler):\n    return d - {call}[0]\n", "")
    chunk = source.chunks[-1]
    told = [why for _, why, _ in hazards.of(chunk, "float16", sparse=False) if why.endswith(hazards.UNSCALED)]
    assert len(told) == is_told
    assert not any(why.endswith(hazards.UNSCALED) for _, why, _ in hazards.of(chunk, "bfloat16", sparse=False))


def test_a_hook_that_reverses_gradients_is_linear(tmp_path: Path) -> None:
    """What a hook multiplies keeps its scale."""
    body = "        out = net(x)\n        out.register_hook(lambda g: -0.5 * g)\n        return (out - y).abs().mean()"
    (tmp_path / "parts.py").write_text(PARTS.format(body=body), encoding="utf-8")
    assert convert(TRAIN, Wish(to="amp"), str(tmp_path / "train.py")).refused == ()


@pytest.mark.parametrize(("work", "refuses"), [("loss.backward()", True), ("print(loss)", False)])
def test_backward_passes_of_derived_classes_are_refused(tmp_path: Path, work: str, *, refuses: bool) -> None:
    """A class of another file differentiates in a method that the training loop of its base calls."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "own.py").write_text(DERIVED.format(work=work), encoding="utf-8")
    (tmp_path / "base.py").write_text(BASE, encoding="utf-8")
    refused = convert(BASE, Wish(to="amp"), str(tmp_path / "base.py")).refused
    assert [one.text.startswith("own.py:7 ") for one in refused] == [True] * refuses


def test_the_scaler_steps_elements_of_a_list_of_optimizers() -> None:
    """Their owner is chosen by an index."""
    text = convert(SEVERAL, Wish(to="amp")).text
    assert "scaler.step(optimizersD[i])" in text
    assert text.count("scaler.update()") == 1


def test_a_backward_pass_from_the_gradient_of_another_is_refused() -> None:
    """It carries the scale of the first, and would get it twice."""
    text = (
        "import torch\n\n\ndef train(model, batches, optimizer):\n    for x in batches:\n"
        "        optimizer.zero_grad()\n        code, out = model(x)\n        loss = out.mean()\n"
        "        loss.backward(retain_graph=True)\n        code.backward(model.kept)\n        optimizer.step()\n"
        "\n\ndef run(model, batches):\n    train(model, batches, torch.optim.SGD(model.parameters(), lr=0.1))\n"
    )
    assert [(one.row, "carries the scale" in one.text) for one in convert(text, Wish(to="amp")).refused] == [(10, True)]
    assert convert(text, Wish(to="amp", dtype="bfloat16")).refused == ()


def test_the_scaler_steps_an_optimizer_that_is_taken_from_a_list() -> None:
    """It goes by a short name."""
    text = SEVERAL.replace(
        "        optimizersD[i].step()", "        _, chosen = i, optimizersD[i]\n        chosen.step()"
    )
    assert "scaler.step(chosen)" in convert(text, Wish(to="amp")).text
