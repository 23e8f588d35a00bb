"""Conditions on a counter behind the step, in a method: they write statistics and end no accumulation window."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = tuple(rule for code, rule in load_registry().rules.items() if code.startswith("AMP30"))
STEP = """
            if self.engine.config.use_amp:
                self.state.scaler.step(self.optimization.optimizer)
                self.state.scaler.update()
            else:
                self.optimization.step_optimizer()
            self.update_stats()
"""
PROGRAM = """
import torch


class Trainer(policy.EngineBase):
    def train_one_epoch(self):
        for bidx, batch in enumerate(self.loader, start=1):
            total = self.state.total
            if self.engine.config.use_amp:
                self.state.scaler.scale(total).backward()
                self.state.scaler.unscale_(self.optimization.optimizer)
            else:
                total.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
{end}

    def update_stats(self, flush=False):
        if flush or self.state.bidx % self.update_every == 0:
            {inside}
"""
STEPS = "self.state.scaler.step(self.optimization.optimizer); self.state.scaler.update()"


@pytest.mark.parametrize(
    ("end", "inside", "expected"),
    [
        (STEP, "self.results.total = self._objective / 2", set()),
        ("            self.update_stats()", STEPS, {"AMP301", "AMP302"}),
    ],
)
def test_a_condition_behind_the_step(end: str, inside: str, expected: set[str]) -> None:
    program = PROGRAM.format(end=end, inside=inside)
    findings = findings_of(program, RULES)
    assert {finding.code for finding in findings} == expected
