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


COUNTED = {
    "of a caller": """
def epoch(model, loader, optimizer, criterion, every, step):
    for x, y in loader:
        criterion(model(x), y).backward()
        step += 1
        if step % every == 0:
            optimizer.step()
            optimizer.zero_grad()
    return step
""",
    "of the object": """
class Trainer:
    def __init__(self, model, optimizer, criterion, every):
        self.model, self.optimizer, self.criterion, self.every = model, optimizer, criterion, every
        self.since = 0

    def fit(self, loader):
        for x, y in loader:
            self.criterion(self.model(x), y).backward()
            self.since += 1
            if self.since >= self.every:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.since = 0
""",
    "of an object from elsewhere": """
def train(model, loader, optimizer, criterion, every, state):
    for x, y in loader:
        criterion(model(x), y).backward()
        state.step += 1
        if state.step % every == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
}


@pytest.mark.parametrize("program", COUNTED.values(), ids=COUNTED)
def test_counter_with_a_value_before(program: str) -> None:
    found = analyse(Job("program.py", "", program.encode(), RULES), Modules()).findings
    assert [one.code for one in found] == ["AMP302"]
