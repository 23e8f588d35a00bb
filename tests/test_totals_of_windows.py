"""Losses that are divided by what a whole window holds, which nothing has to divide again."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding

GIVEN = """
import torch
from losses import criterion


def train(model, loader, optimizer, every, {name}):
    for step, (inputs, labels) in enumerate(loader):
        loss = criterion(model(inputs), labels, {name})
        loss.backward()
        if (step + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
ADDED_UP = """
import torch
from losses import criterion


def train(model, loader, optimizer, every):
    batches, tokens = [], torch.tensor(0)
    for inputs, labels in loader:
        tokens += (labels >= 0).sum()
        batches.append((inputs, labels))
    optimizer.zero_grad()
    for step, (inputs, labels) in enumerate(batches):
        loss = criterion(model(inputs), labels{given})
        loss.backward()
        if (step + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def told(text: str, code: str) -> list[Finding]:
    """What a rule finds in a program."""
    job = Job("script.py", "/nowhere/script.py", text.encode(), (load_registry().rules[code],))
    return [one for one in analyse(job, Modules()).findings if one.code == code]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("total_tokens", 0), ("num_items_in_batch", 0), ("normalizer", 0), ("weights", 1), ("classes", 1)],
)
def test_a_loss_gets_the_items_of_a_window(name: str, expected: int) -> None:
    assert len(told(GIVEN.format(name=name), "AMP302")) == expected


@pytest.mark.parametrize(("given", "expected"), [(", tokens.float()", 0), ("", 1)])
def test_a_loss_gets_what_a_loop_added_up(given: str, expected: int) -> None:
    assert len(told(ADDED_UP.format(given=given), "AMP302")) == expected
