"""Regions of code that is given a scaler, or goes on with one, where the file makes scalers for CUDA alone."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = (load_registry().rules["AMP106"],)
PROGRAM = """
import torch

def fit(model, loader, optimizer, device, scaler):
    for x in loader:
        optimizer.zero_grad()
        mixed = {mixed}
        if mixed:
            with torch.autocast("cuda"):
                loss = model(x.to(device)).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            model(x.to(device)).mean().backward()
            optimizer.step()

def main(model, loader, optimizer, options):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scaler = None
    if {made}:
        scaler = torch.cuda.amp.GradScaler()
    fit(model.to(device), loader, optimizer, device, scaler)
"""
METHOD = """
import torch

class Trainer:
    def __init__(self, options, model, optimizer):
        self.device = options.get("device", "cuda") if torch.cuda.is_available() else "cpu"
        self.model, self.optimizer = model.to(self.device), optimizer
        self.scaler = torch.amp.GradScaler("cuda") if {made} else None

    def train(self, loader, update):
        for x in loader:
            with torch.autocast("cuda"):
                loss = self.model(x.to(self.device)).mean()
            {before}
            self.scaler.scale(loss).backward()
"""


def tells(program: str) -> bool:
    return bool(findings_of(program, RULES))


@pytest.mark.parametrize(
    ("mixed", "made", "told"),
    [
        ("scaler is not None", 'options.mixed and device.type == "cuda"', False),
        ("scaler is not None", "options.mixed", True),
        ("bool(scaler)", "torch.cuda.is_available()", False),
        ("model.training", "torch.cuda.is_available()", False),
    ],
)
def test_a_region_that_is_entered_with_a_scaler_alone(mixed: str, made: str, told: bool) -> None:
    assert tells(PROGRAM.format(mixed=mixed, made=made)) == told


@pytest.mark.parametrize(
    ("made", "before", "told"),
    [
        ('"cuda" in str(self.device)', "pass", False),
        ("options.mixed", "pass", True),
        ('"cuda" in str(self.device)', "if update:\n              ", True),
    ],
)
def test_a_region_of_code_that_raises_without_a_scaler(made: str, before: str, told: bool) -> None:
    assert tells(METHOD.format(made=made, before=before)) == told
