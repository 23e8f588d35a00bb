"""An `Accelerator` that is told to accumulate, and loops that never enter a micro-batch."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = tuple(load_registry().rules.values())
LOOP = """
import torch
from accelerate import Accelerator

def main(args, make_optimizer):
    accelerator = Accelerator({steps})
    model = torch.nn.Linear(2, 1)
    optimizer = {made}
    loader = torch.utils.data.DataLoader(args.data)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    count = 0
    for epoch in range(3):
        for step, inputs in enumerate(loader):
            loss = model(inputs).sum()
            accelerator.backward(loss)
            count += 1
            if {condition}:
                optimizer.step()
                optimizer.zero_grad()
"""
STEPS = "gradient_accumulation_steps=args.gradient_accumulation_steps"
MADE = "torch.optim.SGD(model.parameters(), lr=1.0)"


def count(**parts: str) -> int:
    """The number of findings of AMP733."""
    text = LOOP.format(**{"steps": STEPS, "made": MADE, "condition": "True"} | parts)
    findings = findings_of(text, RULES)
    return sum(one.code == "AMP733" for one in findings)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"steps": "gradient_accumulation_steps=4"},
        {"made": "make_optimizer(model)"},
        {"condition": "accelerator.sync_gradients"},
        {"condition": "torch.isfinite(loss)"},
    ],
)
def test_a_step_behind_each_backward(parts: dict[str, str]) -> None:
    assert count(**parts) == 1


@pytest.mark.parametrize(
    "parts",
    [
        {"steps": ""},
        {"steps": "gradient_accumulation_steps=1"},
        {"condition": "(step + 1) % args.gradient_accumulation_steps == 0"},
        {"condition": "step % 4 == 3"},
        {"condition": "count >= args.gradient_accumulation_steps"},
    ],
)
def test_windows_that_the_script_counts(parts: dict[str, str]) -> None:
    assert count(**parts) == 0
