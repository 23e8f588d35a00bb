"""A step behind a loop takes the gradients of its last window, however many paths have led through the loop."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = load_registry().rules
PROGRAM = """
import torch
from torch.utils.data import DataLoader

def train(model, loader, optimizer, scheduler=None, n=4):
    good = seen = 0
    optimizer.zero_grad()
    for index, batch in enumerate(loader):
        try:
            loss = model(batch).mean()
            if torch.isnan(loss):
                optimizer.zero_grad()
                continue
            loss = loss / n
            loss.backward()
            if (index + 1) % n == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                broken = False
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        if torch.isnan(parameter.grad).any() or torch.isinf(parameter.grad).any():
                            broken = True
                            break
                if broken:
                    optimizer.zero_grad()
                else:
                    optimizer.step()
                    if scheduler is not None:
                        scheduler.step()
                    optimizer.zero_grad()
                    good += 1
                    seen += loss.item() * n
            if good > 0:
                print(seen / good)
        except RuntimeError:
            optimizer.zero_grad()
    {behind}
    return seen / max(good, 1)

def main(data):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    for epoch in range(3):
        train(model, loader, optimizer, scheduler, n={n})
"""
STEP = """if (index + 1) % n != 0:
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        optimizer.zero_grad()"""


@pytest.mark.parametrize(("behind", "codes"), [("pass", {"AMP303"}), (STEP, set())], ids=["nothing", "step"])
def test_a_window_is_lost_only_without_a_step_behind(behind: str, codes: set[str]) -> None:
    program = PROGRAM.format(behind=behind, n="int(input())").encode()
    assert {one.code for one in findings_of(program, (RULES["AMP303"],))} == codes
