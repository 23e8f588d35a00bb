"""Schedules behind a step that an optimizer takes by itself, so that none is skipped."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = tuple(rule for code, rule in load_registry().rules.items() if code in ("AMP206", "AMP212"))
LOOP = """
import torch

def fit(net, batches, chosen, optimizer, other, schedule, scaler):
    for x in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x).mean()
        scaler.scale(loss).backward()
{steps}
"""
SCALED = "scaler.step(optimizer)\nscaler.update()\n"
WRAPPER = """
class Stepper:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer):
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()

def run(net, batches, optimizer, schedule):
    stepper = Stepper()
    for x in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x).mean()
        stepper(loss, optimizer)
        {step}
        schedule.step()
        optimizer.zero_grad()
"""


def told(program: str) -> list[str]:
    found = findings_of(program, RULES)
    return [finding.code for finding in found]


@pytest.mark.parametrize(
    ("steps", "codes"),
    [
        (SCALED + "optimizer.step()\nschedule.step()", ["AMP206"]),
        (SCALED + "optimizer.step()\noptimizer.zero_grad()\nschedule.step()", ["AMP206"]),
        (SCALED + "if chosen:\n    optimizer.step()\n    schedule.step()", ["AMP206"]),
        (SCALED + "if chosen:\n    optimizer.step()\nschedule.step()", ["AMP206", "AMP212"]),
        (SCALED + "schedule.step()", ["AMP212"]),
        (SCALED + "schedule.step()\noptimizer.step()", ["AMP212", "AMP206"]),
        ("scaler.step(other)\n" + SCALED + "optimizer.step()\nschedule.step()", ["AMP206", "AMP212"]),
    ],
)
def test_a_schedule_behind_a_step_that_the_optimizer_takes_anyway(steps: str, codes: list[str]) -> None:
    assert told(LOOP.format(steps=textwrap.indent(steps, " " * 8))) == codes


def test_a_step_behind_a_class_that_steps() -> None:
    program = f"import torch\n{WRAPPER}"
    assert told(program.format(step="optimizer.step()")) == ["AMP206"]
    assert told(program.format(step="print(loss.item())")) == ["AMP212"]


def test_a_plain_step_on_another_path() -> None:
    steps = "if chosen:\n    scaler.step(optimizer)\n    scaler.update()\nelse:\n    optimizer.step()\nschedule.step()"
    assert "AMP212" in told(LOOP.format(steps=textwrap.indent(steps, " " * 8)))


@pytest.mark.parametrize(
    ("schedule", "codes"),
    [
        ("torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda epoch: 1)", []),
        ("torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (epoch + 1))", ["AMP212"]),
        ("transformers.get_constant_schedule(optimizer)", []),
        ("transformers.get_constant_schedule_with_warmup(optimizer, 100)", ["AMP212"]),
    ],
)
def test_a_constant_schedule_does_not_run_ahead(schedule: str, codes: list[str]) -> None:
    steps = textwrap.indent(SCALED + "schedule.step()", 8 * " ")
    program = "import transformers\n" + LOOP.format(steps=steps)
    made = program.replace("    for x in batches:", f"    schedule = {schedule}\n    for x in batches:")
    assert told(made) == codes


@pytest.mark.parametrize(
    ("made", "runs_ahead"),
    [
        ("torch.optim.lr_scheduler.StepLR(other, 10)", False),
        ("torch.optim.lr_scheduler.StepLR(optimizer=other, step_size=10)", False),
        ("torch.optim.lr_scheduler.StepLR(optimizer, 10)", True),
        ("unseen(other)", True),
    ],
)
def test_a_schedule_of_an_optimizer_that_the_scaler_never_steps(made: str, runs_ahead: bool) -> None:
    steps = textwrap.indent(SCALED + "other.step()\nother.zero_grad()\nschedule.step()", 8 * " ")
    start = f"    other = torch.optim.SGD([scale], lr=0.1)\n    schedule = {made}\n    for x in batches:"
    found = told(LOOP.format(steps=steps).replace("    for x in batches:", start))
    assert ("AMP212" in found) == runs_ahead


@pytest.mark.parametrize(
    ("dtype", "codes"),
    [("float16", ["AMP212"]), ("bfloat16", []), ("float32", []), ("float16 if chosen else torch.bfloat16", ["AMP212"])],
)
def test_gradients_that_cannot_overflow(dtype: str, codes: list[str]) -> None:
    program = LOOP.format(steps=textwrap.indent(SCALED + "schedule.step()", " " * 8))
    assert told(program.replace("torch.float16", f"torch.{dtype}")) == codes
