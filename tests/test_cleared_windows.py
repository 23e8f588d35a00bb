"""Where gradients are cleared on every micro-batch, that is the one mistake: none add up that could be too large."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = load_registry().rules
PROGRAM = """
def train(model, batches, optimizer, steps, args):
    for i, x in enumerate(batches):
        {first}
        loss = model(x).mean()
        loss.backward()
        if (i + 1) % steps == 0:
            optimizer.step()
            {last}
"""
CLEAR = "optimizer.zero_grad()"
CASES = [
    (CLEAR, "pass", {"AMP304"}),
    ("pass", CLEAR, {"AMP302"}),
    (f"if i % steps == 0: {CLEAR}", "pass", {"AMP302"}),
]


@pytest.mark.parametrize(("first", "last", "codes"), CASES)
def test_one_mistake_is_one_finding(first: str, last: str, codes: set[str]) -> None:
    program = PROGRAM.format(first=first, last=last).encode()
    rules = (RULES["AMP302"], RULES["AMP304"])
    assert {one.code for one in findings_of(program, rules)} == codes


BESIDE = """
def train(model, batches, optimizer, steps, args):
    for i, x in enumerate(batches):
        loss = model(x).mean()
        if args.plain:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        else:
            ({loss}).backward()
            if (i + 1) % steps == 0:
                optimizer.step()
                optimizer.zero_grad()
"""


@pytest.mark.parametrize(("loss", "codes"), [("loss / args.share", set()), ("loss", {"AMP302"})])
def test_a_path_that_steps_each_time_is_no_part_of_a_window(loss: str, codes: set[str]) -> None:
    program = BESIDE.format(loss=loss).encode()
    assert {one.code for one in findings_of(program, (RULES["AMP302"],))} == codes


BEHIND = """
def train(model, batches, optimizer, steps, args):
    for i, x in enumerate(batches):
        (model(x).mean() / steps).backward()
        if {test}:
            optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("test", ["(i + 1) % steps == 0", "(i + 1) % steps == 0 or i == len(batches) - 1"])
def test_gradients_are_cleared_behind_the_condition_of_the_step(test: str) -> None:
    rules = (RULES["AMP302"], RULES["AMP304"])
    program = BEHIND.format(test=test).encode()
    assert [one.code for one in findings_of(program, rules)] == ["AMP304"]


TRAINER = """
import torch

class Trainer:
    def __init__(self, model, optimizer, args):
        self.model, self.optimizer, self.args = model, optimizer, args
        self.scaler = torch.amp.GradScaler("cuda") if args.amp else None

    def step(self):
        if self.args.amp:
            self.scaler.step(self.optimizer)
            self.scaler.update()
            {scaled}
        else:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def train(self, loader):
        for x, y in loader:
            with torch.autocast("cuda", enabled=self.args.amp):
                loss = self.model(x, y)
            if self.args.amp:
                self.scaler.scale(loss).backward()
            else:
                loss.backward()
            self.step()
"""


@pytest.mark.parametrize(("scaled", "expected"), [("pass", [11]), ("self.optimizer.zero_grad()", [])])
def test_a_trainer_clears_on_the_path_of_its_scaler_too(scaled: str, expected: list[int]) -> None:
    program = TRAINER.format(scaled=scaled).encode()
    found = findings_of(program, (RULES["AMP304"],))
    assert [one.span.start.row for one in found] == expected
