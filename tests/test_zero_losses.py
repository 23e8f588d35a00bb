"""Backward passes on a loss times 0 within a region: AMP101 is told of them only where something else is added."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

PROGRAM = """
import torch

model = torch.nn.Linear(8, 2)
for inputs in torch.randn(4, 16, 8):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inputs)
        {loss}.backward()
"""


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("(logits * 0).sum()", False),
        ("(0.0 * logits.mean())", False),
        ("(0.0 + 0.0 * logits.sum())", False),
        ("torch.mean(logits * 0)", False),
        ("(logits * 0.5).sum()", True),
        ("(logits.sum() + 0 * logits.mean())", True),
        ("(logits * 0).exp().sum()", True),
    ],
)
def test_backward_on_zero(loss: str, expected: bool) -> None:
    job = Job("program.py", "", PROGRAM.format(loss=loss).encode(), (load_registry().rules["AMP101"],))
    assert bool(analyse(job, Modules()).findings) is expected


def test_zero_through_a_name() -> None:
    program = PROGRAM.replace("{loss}", "unused = 0 * logits.sum()\n        unused")
    job = Job("program.py", "", program.encode(), (load_registry().rules["AMP101"],))
    assert not analyse(job, Modules()).findings
