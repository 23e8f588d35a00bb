"""Gradients that a function out of sight clips, by its name, before the step of a scaler that nothing unscales for."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = (load_registry().rules["AMP205"],)
PROGRAM = """
import torch
from torch.amp import GradScaler
from tools import clip_grad_norm

class Steps:
    def __init__(self, optimizers, clip_gradients):
        self.optimizers, self.clip_gradients = optimizers, clip_gradients
        self.scaler = GradScaler("cuda")

    def differentiate(self, loss):
        self.scaler.scale(loss).backward()

    def finish(self):
        for optimizer in self.optimizers:
            {before}
            for group in optimizer.param_groups:
                {clip}
            self.scaler.step(optimizer)
            self.scaler.update()
"""


def told(clip: str, before: str = "pass") -> list[str]:
    """The severities of the findings."""
    code = PROGRAM.format(clip=clip, before=before)
    return [one.severity.name.lower() for one in analyse(Job("steps.py", "", code.encode(), RULES), Modules()).findings]


@pytest.mark.parametrize(
    "clip", ["clip_grad_norm(group['params'], 1.0)", "norm = clip_grad_norm(group['params'], 1.0)"]
)
def test_function_that_gets_parameters_alone(clip: str) -> None:
    assert told(clip) == ["info"]
    assert told(clip, "self.scaler.unscale_(optimizer)") == []


@pytest.mark.parametrize(
    "clip",
    [
        "self.clip_gradients(group['params'])",
        "clip_grad_norm(group['params'], self.scaler)",
        "clip_grad_norm(optimizer)",
    ],
)
def test_what_may_unscale_by_itself(clip: str) -> None:
    assert told(clip) == []
