"""Where gradients are cleared on every micro-batch, that is the one mistake: none add up that could be too large."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

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
    assert {one.code for one in analyse(Job("program.py", "", program, rules), Modules()).findings} == codes


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
    assert {
        one.code for one in analyse(Job("program.py", "", program, (RULES["AMP302"],)), Modules()).findings
    } == codes


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
    assert [one.code for one in analyse(Job("program.py", "", program, rules), Modules()).findings] == ["AMP304"]
