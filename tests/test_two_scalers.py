"""Gradients of another scaler: what AMP207 says where a condition leaves out the pass of the own one."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Severity

PROGRAM = """
import torch


def train(generator, critic, batches, criterion):
    scaler, other = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
    steps, critic_steps = torch.optim.SGD(generator.parameters()), torch.optim.SGD(critic.parameters())
    for noise in batches:
        steps.zero_grad()
        critic_steps.zero_grad()
        with torch.autocast("cuda"):
            made = generator(noise)
            loss = made.abs().mean()
{passes}
        scaler.step(steps)
        other.step(critic_steps)
        scaler.update()
        other.update()
"""
LEFT_OUT = """
        scaler.scale(loss).backward()
        if criterion is not None:
            with torch.autocast("cuda"):
                judged = criterion(critic(made.detach()))
            other.scale(judged).backward()
"""
ALTERNATIVE = """
        if criterion is not None:
            scaler.scale(loss).backward()
        else:
            other.scale(loss).backward()
"""
NONE = """
        scaler.scale(loss).backward()
"""


def _severities(passes: str) -> set[Severity]:
    rule = load_registry().rules["AMP207"]
    job = Job("program.py", "", PROGRAM.format(passes=passes).encode(), (rule,))
    return {finding.severity for finding in analyse(job, Modules()).findings}


@pytest.mark.parametrize("passes", [ALTERNATIVE, NONE])
def test_the_pass_of_another_scaler_takes_the_place_of_the_own(passes: str) -> None:
    assert _severities(passes) == {Severity.ERROR}


def test_a_condition_leaves_out_the_own_pass() -> None:
    assert not _severities(LEFT_OUT)
