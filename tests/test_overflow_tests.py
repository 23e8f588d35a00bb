"""Tests of scaled gradients for inf that a loop makes itself, and what becomes of the loss scale (AMP203)."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULE = load_registry().rules["AMP203"]

PROGRAM = """
import math
import torch
from torch import nn

def all_finite(model):
    for p in model.parameters():
        if p.grad is not None and not torch.isfinite(p.grad).all():
            return False
    return True

def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler()
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
"""
END = """
        scaler.step(optimizer)
        scaler.update()
"""
STALLS = {
    "any gradient": "if any(not torch.isfinite(p.grad).all() for p in model.parameters()):\n    continue\n" + END,
    "a function": "if not all_finite(model):\n    optimizer.zero_grad()\n    continue\n" + END,
    "a function, around the step": "if all_finite(model):\n    scaler.step(optimizer)\n    scaler.update()\n",
    "a norm": """
norm = 0.0
for p in model.parameters():
    norm += p.grad.norm() ** 2
if not math.isfinite(norm.item()):
    continue
"""
    + END,
    "counts": """
nans, infs = 0, 0
nans = sum(torch.isnan(p.grad).sum() for p in model.parameters())
overflows = 0
for p in model.parameters():
    overflows += torch.isinf(p.grad).sum().item()
if nans == 0 and overflows == 0:
    scaler.step(optimizer)
    scaler.update()
""",
}
LOWERED = {
    "the loss": "if not torch.isfinite(loss):\n    continue\n" + END,
    "a scale set by hand": "if not all_finite(model):\n    scaler.update(scaler.get_scale() / 2)\n    continue\n" + END,
    "the last round": "if not all_finite(model):\n    break\n" + END,
    "an error": "if not all_finite(model):\n    raise ValueError\n" + END,
    "finite gradients": "if all_finite(model) and len(inputs) < 3:\n    print('small')\n" + END,
    "a message": "if not all_finite(model):\n    print('overflow')\n" + END,
    "a step of the scaler": "if not all_finite(model):\n    scaler.step(optimizer)\n    scaler.update()\n    continue\n"
    + END,
}


def _found(body: str) -> list[str]:
    lines = textwrap.dedent(body)
    raw = (PROGRAM + textwrap.indent(lines, " " * 8)).encode()
    found = findings_of(raw, (RULE,), path="/nowhere/script.py")
    return [one.code for one in found]


@pytest.mark.parametrize("shape", STALLS)
def test_a_scale_that_never_falls_is_told(shape: str) -> None:
    assert _found(STALLS[shape].replace(END, textwrap.dedent(END))) == ["AMP203"]


@pytest.mark.parametrize("shape", LOWERED)
def test_other_tests_are_not(shape: str) -> None:
    assert _found(LOWERED[shape].replace(END, textwrap.dedent(END))) == []
