"""`isinstance` and `torch.is_tensor` decide branches, and what is no tensor is not converted as one."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = (load_registry().rules["AMP501"],)
PROGRAM = """
import numpy as np, torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return x

def run(net, x, {parameter}):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = {value}
    if {test}:
        return None
    return np.array(out)

run({net}, {values}, 1)
"""
UNKNOWN = ("net.forward(x)", "load()", "values")
LAYER = ("net(x)", "nn.Linear(4, 4)", "torch.ones(2, 4)")
CASES = [
    (UNKNOWN, "isinstance(out, torch.Tensor)", False),
    (UNKNOWN, "not isinstance(out, torch.Tensor)", True),
    (UNKNOWN, "torch.is_tensor(out)", False),
    (UNKNOWN, "isinstance(out, (torch.Tensor, list))", False),
    (UNKNOWN, "not isinstance(out, np.ndarray)", False),
    (UNKNOWN, "isinstance(out, np.ndarray)", True),
    (UNKNOWN, "not isinstance(out, (list, tuple))", False),
    (UNKNOWN, "isinstance(out, dict)", True),
    (UNKNOWN, "isinstance(other, torch.Tensor)", True),
    (LAYER, "isinstance(out, torch.Tensor)", False),
    (LAYER, "isinstance(out, (list, tuple))", True),
    (LAYER, "not isinstance(out, dict)", False),
    (LAYER, "isinstance(net, nn.ModuleDict)", True),
]


@pytest.mark.parametrize(("kind", "test", "expected"), CASES)
def test_the_branch_without_a_tensor(kind: tuple[str, str, str], test: str, expected: bool) -> None:
    value, net, values = kind
    program = PROGRAM.format(value=value, net=net, values=values, test=test, parameter="other")
    findings = findings_of(program, RULES)
    assert bool(findings) is expected


OBJECTS = """
import torch

class Base: ...
class Amp(Base):
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")
class Other: ...

def train(model, optimizer, loader):
    runner = Amp()
    for batch in loader:
        runner.scaler.scale(model(batch).sum()).backward()
        if isinstance(runner, {cls}):
            runner.scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        runner.scaler.step(optimizer)
        runner.scaler.update()
"""


@pytest.mark.parametrize(
    ("cls", "expected"), [("Amp", False), ("Base", False), ("(Other, Base)", False), ("Other", True)]
)
def test_an_object_is_of_its_class_and_its_bases(cls: str, expected: bool) -> None:
    rules = (load_registry().rules["AMP205"],)
    findings = findings_of(OBJECTS.format(cls=cls), rules)
    assert bool(findings) is expected
