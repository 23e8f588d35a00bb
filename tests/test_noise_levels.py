"""Timesteps that are noise levels between 0 and 1, which bfloat16 does not round to whole fours."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = tuple(rule for rule in load_registry().rules.values() if rule.handlers() and rule.default)
STEP = """
import torch


class Step:
    '''In bfloat16.'''

    def predict(self, conditions, sample, {name}):
        prompts = conditions.text.embeds
        dtype = prompts.dtype
        timestep = {converted}
        return self.model(sample, timestep)
"""


@pytest.mark.parametrize(
    ("name", "converted", "expected"),
    [
        ("sigma", "sigma.unsqueeze(0).expand(2).to(sample.device, dtype=dtype)", 0),
        ("sigmas", "sigmas.to(dtype)", 0),
        ("level", "level.to(dtype)", 1),
        ("t", "t.unsqueeze(0).expand(2).to(sample.device, dtype=dtype)", 1),
    ],
)
def test_noise_levels_are_fractions(name: str, converted: str, expected: int) -> None:
    text = STEP.format(name=name, converted=converted)
    job = Job("script.py", "/nowhere/script.py", text.encode(), RULES)
    assert len(analyse(job, Modules()).findings) == expected
