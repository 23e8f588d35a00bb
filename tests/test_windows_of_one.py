"""A name that a path knows to be 1 ends every window that is as long, and one that does not is more."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = load_registry().rules
PROGRAM = """
import torch

def train(model, batches, steps, other):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for i, x in enumerate(batches):
        place = i % steps
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss / steps).backward()
        if ALONE:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if ENDS:
            if not (ALONE):
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
ENDS = ("place == steps - 1", "place == 0", "i % steps == 0", "(i + 1) % steps == 0", "not i % steps")
ALONE = ("steps == 1", "steps <= 1", "not steps > 1", "1 == steps")


def found(alone: str, ends: str) -> set[str]:
    program = PROGRAM.replace("ALONE", alone).replace("ENDS", ends).encode()
    rules = tuple(RULES[code] for code in ("AMP201", "AMP203", "AMP205", "AMP301"))
    return {one.code for one in findings_of(program, rules)}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("alone", ALONE)
def test_every_micro_batch_ends_a_window_of_one(alone: str, ends: str) -> None:
    assert not found(alone, ends)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("alone", ["other == 1", "steps == 2", "steps > 1", "steps <= other"])
def test_others_do_not(alone: str, ends: str) -> None:
    assert found(alone, ends)


LATER = """
import torch

def train(model, batches, steps, other):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for i, x in enumerate(batches):
        loss = model(x).mean()
        scaler.scale(loss / steps).backward()
        if (i + 1) % steps == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        elif CASE:
            scaler.update()
"""


@pytest.mark.parametrize(("case", "expected"), [("steps == 1", False), ("steps <= 1", False), ("other == 1", True)])
def test_a_window_that_goes_on_is_longer_than_one(case: str, expected: bool) -> None:
    program = LATER.replace("CASE", case).encode()
    assert bool(findings_of(program, (RULES["AMP215"],))) is expected
