"""A finite norm of the gradients tells that no step is skipped, so that schedulers may advance."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = (load_registry().rules["AMP212"],)
PROGRAM = """
import math
import numpy as np
import torch

def fit(model, loader, criterion, optimizer, flags):
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if {condition}:
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
        else:
            scaler.update()
"""


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("torch.isfinite(norm)", False),
        ("norm.isfinite().item()", False),
        ("bool(torch.isfinite(norm).all())", False),
        ("math.isfinite(float(norm))", False),
        ("np.isfinite(norm.item())", False),
        ("not (torch.isnan(norm) or torch.isinf(norm))", False),
        ("torch.isfinite(norm) and torch.isfinite(loss)", False),
        ("not torch.isfinite(norm)", True),
        ("not torch.isnan(norm)", True),
        ("torch.isfinite(loss)", True),
        ("torch.isfinite(norm) or flags.always", True),
    ],
)
def test_a_finite_norm_tells_of_a_step_that_is_taken(condition: str, told: bool) -> None:
    program = PROGRAM.format(condition=condition)
    assert bool(findings_of(program, RULES)) == told
