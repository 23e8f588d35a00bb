"""Windows that a script counts itself, beside an Accelerator that is not asked to, and clearing at the wrong place."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = tuple(rule for rule in load_registry().rules.values() if rule.code in ("AMP302", "AMP304"))
PROGRAM = """
import torch
from accelerate import Accelerator

def train(model, loader, criterion, every):
    accelerator = Accelerator({given})
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for i, (x, y) in enumerate(loader):
{round}
"""
LAST = """
        loss = criterion(model(x), y)
        accelerator.backward(loss)
        if (i + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
DIVIDED = LAST.replace("backward(loss)", "backward(loss / every)")
EVERY = """
        if (i + 1) % every == 0:
            optimizer.zero_grad()
        accelerator.backward(criterion(model(x), y))
        optimizer.step()
"""
MANAGED = """
        with accelerator.accumulate(model):
            accelerator.backward(criterion(model(x), y))
            optimizer.step()
            if (i + 1) % every == 0:
                optimizer.zero_grad()
"""
ASKED = "gradient_accumulation_steps=every"


def told(body: str, given: str = "") -> list[str]:
    program = PROGRAM.format(given=given, round=body.strip("\n"))
    return [one.code for one in analyse(Job("program.py", "", program.encode(), RULES), Modules()).findings]


@pytest.mark.parametrize(
    ("body", "given", "codes"),
    [
        (LAST, "", ["AMP302"]),
        (DIVIDED, "", []),
        (EVERY, "", ["AMP304"]),
        (LAST, ASKED, []),
        (MANAGED, ASKED, []),
    ],
)
def test_window_by_hand(body: str, given: str, codes: list[str]) -> None:
    assert told(body, given) == codes
