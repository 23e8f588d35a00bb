"""Frequencies that are made in half: no loss, and as coarse as their positions are far."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

CODES = ("AMP406", "AMP408")
RULES = tuple(rule for code, rule in load_registry().rules.items() if code in CODES)
TABLE = """
import math
import torch
from torch import nn


class Waves(nn.Module):
    def __init__(self, size, width=64):
        super().__init__()
        self.width = width
        self.out = nn.Linear(width, size)

    def forward(self, {name}):
        count = self.width // 2
        rates = torch.exp(torch.arange(count, dtype=torch.float16) * (-math.log(1e4) / count))
        angles = {name}[:, None].float() * rates[None]
        return self.out(torch.cat([angles.cos(), angles.sin()], dim=-1))


def fit(net, batches, optimizer):
    for x, y in batches:
        loss = net(x).float().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
LOSS = """
import torch
from torch import nn


def fit(net, batches, optimizer):
    net = net.cuda().half()
    for x, y in batches:
        scores = net(x.cuda().half()){cast}
        loss = (torch.exp(scores.half()) - y).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def told(program: str, *, asked: bool = False) -> list[tuple[str, str]]:
    selected = frozenset(CODES) if asked else frozenset[str]()
    found = findings_of(program, RULES, asked=selected)
    return [(finding.code, finding.reason or "") for finding in found]


@pytest.mark.parametrize("name", ["timesteps", "positions", "coords"])
def test_frequencies_of_positions(name: str) -> None:
    ((code, reason),) = told(TABLE.format(name=name))
    assert code == "AMP406"
    assert "It holds where positions reach the hundreds, which is not seen." in reason


@pytest.mark.parametrize("name", ["t", "next_t"])
def test_times_can_be_fractions(name: str) -> None:
    assert told(TABLE.format(name=name)) == []
    ((code, reason),) = told(TABLE.format(name=name), asked=True)
    assert code == "AMP406"
    assert "positions reach the hundreds and times count steps and are no fractions" in reason


def test_an_exponential_of_scores_is_told() -> None:
    assert [code for code, _ in told(LOSS.format(cast=""))] == ["AMP408"]


RANGE = """
import torch
from torch import nn


class Places(nn.Module):
    def __init__(self, size{length}):
        super().__init__()
        self.length = length

    def forward(self, x):
        places = torch.arange({end}, dtype=torch.bfloat16)
        return x.to(torch.bfloat16) * places
"""


@pytest.mark.parametrize(
    ("length", "end", "count"),
    [
        (", length=128", "self.length", 0),
        (", length=256", "self.length", 0),
        (", length=500", "self.length // 2", 0),
        (", length=128", "self.length * 2 + 1", 1),
        (", length=1024", "self.length", 1),
        (", length", "self.length", 1),
        (", length=None", "self.length", 1),
        (", length=128", "x.shape[1]", 1),
    ],
)
def test_a_range_by_a_default(length: str, end: str, count: int) -> None:
    assert [code for code, _ in told(RANGE.format(length=length, end=end))] == ["AMP406"] * count
