"""Steps of a scaler that has scaled nothing yet: why they fail, and where AMP207 offers no repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.registry import load_registry
from amplint.findings import Finding
from tests.linting import findings_of

RULES = (load_registry().rules["AMP207"],)
TRAINER = """import torch

class Trainer:
    def __init__(self, net, half=False):
        self.net = net.cuda()
        self.half = half
        self.optimizer = torch.optim.Adam(net.parameters())
        self.scaler = {scaler}

    def epoch(self, loader):
        for x in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=self.half):
                loss = self.net(x).mean()
            loss.backward()
            if not self.half:
                self.optimizer.step()
            else:
                {step}
"""
MADE = 'torch.amp.GradScaler("cuda")'
STEP = """self.scaler.step(self.optimizer)
                self.scaler.update()"""
LATE = STEP + "\n                self.scaler.scale(loss).backward()"
OF_NEXT = (
    STEP
    + """
                loss = self.net(x).mean()
                self.scaler.scale(loss).backward()"""
)
EARLIER = """self.scaler.scale(self.net(x).sum()).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()"""


def found(scaler: str, step: str) -> list[Finding]:
    """What AMP207 finds in the trainer."""
    program = TRAINER.format(scaler=scaler, step=step)
    path = Path("program.py").resolve()
    return findings_of(program, RULES, path=str(path))


@pytest.mark.parametrize(
    ("scaler", "repaired"),
    [(MADE, True), (f"{MADE} if half else None", True), ('torch.amp.GradScaler("cuda", enabled=half)', True)],
)
def test_a_scaler_that_may_be_none_scales_nothing(scaler: str, repaired: bool) -> None:
    (finding,) = found(scaler, STEP)
    assert (finding.fix is not None) == repaired
    assert "AssertionError" in finding.reason


def test_a_scaled_pass_behind_the_step_has_to_move() -> None:
    (finding,) = found(MADE, LATE)
    assert finding.fix is None
    assert finding.advice.startswith("Move ")
    assert "AssertionError" in finding.reason


@pytest.mark.parametrize("step", [OF_NEXT, EARLIER])
def test_another_loss_that_is_scaled(step: str) -> None:
    (finding,) = found(MADE, step)
    assert finding.fix is not None
    assert not finding.advice.startswith("Move ")
    assert "65536 times too small" in finding.reason
