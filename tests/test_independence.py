"""Paths that need two unseen conditions to differ: what is found only on them names that as a premise."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of

RULES = tuple(rule for code, rule in load_registry().rules.items() if code.startswith("AMP2"))
FRAME = """
import torch

LOSS_SCALE, UNSCALE = True, False

class Trainer:
    def __init__(self, config, plan, model, optimizer):
        self.config, self.plan, self.model, self.optimizer = config, plan, model, optimizer
        self.scaler = torch.amp.GradScaler("cuda"{enabled})

    def _unscale(self):
        if not self.plan.fp16:
            return
        self.scaler.unscale_(self.optimizer)

    def run(self, loader):
        for step, batch in enumerate(loader):
            self.optimizer.zero_grad()
            loss = self.model(batch).sum()
{body}
"""
SCALED = "self.scaler.scale(loss).backward()"
BACKWARD = "if {0}:\n    self.scaler.scale(loss).backward()\nelse:\n    loss.backward()"
UNSCALE = "if {0}:\n    self.scaler.unscale_(self.optimizer)"
CLIP = "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)"
STEP = "self.scaler.step(self.optimizer)\nself.scaler.update()"
CHOSEN = "if {0}:\n    self.scaler.step(self.optimizer)\n    self.scaler.update()\nelse:\n    self.optimizer.step()"
CLIPPED = "if {0}:\n    self.scaler.unscale_(self.optimizer)\n    " + CLIP + "\nelse:\n    {1}"
MEASURED = "torch.nn.utils.get_total_norm([p.grad for p in self.model.parameters()])"
HIDDEN = "self.plan.prepare(self)"
AMP = "self.config.amp"
FP16 = "self.plan.fp16"

ERROR, INFO, SILENT = {"AMP205": Severity.ERROR}, {"AMP205": Severity.INFO}, {"AMP205": None}
CASES: dict[str, tuple[list[str], dict[str, Severity | None]]] = {
    "two settings": ([BACKWARD.format(AMP), UNSCALE.format(FP16), CLIP, CHOSEN.format(AMP)], INFO),
    "one setting": ([BACKWARD.format(AMP), UNSCALE.format(AMP), CLIP, CHOSEN.format(AMP)], SILENT),
    "one setting, reversed": ([BACKWARD.format(AMP), UNSCALE.format(f"not {AMP}"), CLIP, CHOSEN.format(AMP)], ERROR),
    "one condition alone": ([SCALED, UNSCALE.format(FP16), CLIP, STEP], ERROR),
    "on every path": ([BACKWARD.format(AMP), CLIP, CHOSEN.format(AMP)], ERROR),
    "known conditions": ([BACKWARD.format("LOSS_SCALE"), UNSCALE.format("UNSCALE"), CLIP, STEP], ERROR),
    "a setting and a counter": ([BACKWARD.format(AMP), UNSCALE.format("step % 2"), CLIP, CHOSEN.format(AMP)], ERROR),
    "behind a return": ([BACKWARD.format(AMP), "self._unscale()", CLIP, CHOSEN.format(AMP)], INFO),
    "the same clip in both": ([BACKWARD.format(AMP), CLIPPED.format(FP16, CLIP), CHOSEN.format(AMP)], INFO),
    "a norm where nothing is clipped": (
        [BACKWARD.format(AMP), CLIPPED.format(FP16, MEASURED), CHOSEN.format(AMP)],
        ERROR,
    ),
    "two calls left out": (
        [BACKWARD.format(AMP), UNSCALE.format(FP16), UNSCALE.format("self.plan.half"), CLIP, CHOSEN.format(AMP)],
        SILENT,
    ),
    "read anew behind unseen code": (
        [BACKWARD.format(AMP), HIDDEN, UNSCALE.format(AMP), CLIP, CHOSEN.format(AMP)],
        SILENT,
    ),
    "step": ([BACKWARD.format(AMP), CHOSEN.format(FP16)], {"AMP206": Severity.INFO, "AMP207": Severity.INFO}),
    "scaled and stepped in one branch": (
        [
            f"if {AMP}:\n    if {FP16}:\n        {SCALED}\n        self.optimizer.step()\n"
            f"    else:\n        {SCALED}\n        self.scaler.step(self.optimizer)\n    self.scaler.update()"
        ],
        {"AMP206": Severity.ERROR},
    ),
    "step, one alone": ([SCALED, CHOSEN.format(FP16)], {"AMP206": Severity.ERROR}),
    "backward, one alone": ([BACKWARD.format(AMP), STEP], {"AMP207": Severity.ERROR}),
}


def told(body: list[str], enabled: str = "") -> dict[str, Severity]:
    """The severity of what is found, by code."""
    lines = textwrap.indent("\n".join(body), " " * 12)
    program = FRAME.format(body=lines, enabled=enabled)
    findings = findings_of(program, RULES)
    return {finding.code: finding.severity for finding in findings}


@pytest.mark.parametrize(("body", "expected"), CASES.values(), ids=list(CASES))
def test_conditions(body: list[str], expected: dict[str, Severity | None]) -> None:
    found = told(body)
    assert {code: found.get(code) for code in expected} == expected


@pytest.mark.parametrize(("enabled", "expected"), [(", enabled=config.amp", INFO), ("", ERROR)])
def test_a_scaler_that_another_setting_enables(enabled: str, expected: dict[str, Severity | None]) -> None:
    found = told([SCALED, UNSCALE.format(FP16), CLIP, STEP], enabled)
    assert {code: found.get(code) for code in expected} == expected


SCALER = """
import torch

class Plain:
    def scale(self, loss):
        return loss

class Runner:
    def __init__(self, on):
        self.scaler = torch.amp.GradScaler("cuda") if on else Plain()

def train(runner: Runner, other, model, optimizer, loader):
    for batch in loader:
        runner.scaler.scale(model(batch).sum()).backward()
        scaler = {read}
        if scaler is not None:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        runner.scaler.step(optimizer)
        runner.scaler.update()

train(Runner(torch.cuda.is_available()), object(), model, optimizer, loader)
"""


@pytest.mark.parametrize(
    ("read", "expected"),
    [("getattr(runner, 'scaler', None)", SILENT), ("runner.scaler", SILENT), ("getattr(other, 'scaler', None)", INFO)],
)
def test_a_scaler_whose_method_ran_is_not_none(read: str, expected: dict[str, Severity | None]) -> None:
    findings = findings_of(SCALER.format(read=read), RULES)
    found = {finding.code: finding.severity for finding in findings}
    assert found.get("AMP205") is expected["AMP205"]


NESTED = """
import torch

def train(model, data, optimizer, use_amp, amp_dtype, profile):
    scaler = None
    {made}
    for inputs in data:
        if use_amp:
            with torch.autocast("cuda", dtype=amp_dtype):
                loss = model(inputs).mean()
            if scaler is not None:
                scaler.scale(loss).backward()
            else:
                loss.backward()
        else:
            loss = model(inputs).mean()
            loss.backward()
        if scaler is not None:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
"""
UNSCALED = "AMP207"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("scaler = torch.amp.GradScaler() if profile['scaler_needed'] else None", Severity.INFO),
        ("if profile['scaler_needed']:\n        scaler = torch.amp.GradScaler()", Severity.INFO),
        ("scaler = torch.amp.GradScaler() if use_amp else None", None),
        ("if use_amp:\n        scaler = torch.amp.GradScaler()", None),
        ("scaler = torch.amp.GradScaler()", Severity.ERROR),
    ],
)
def test_a_plain_pass_within_the_branch_that_scales(made: str, expected: Severity | None) -> None:
    findings = findings_of(NESTED.format(made=made), RULES)
    assert next((one.severity for one in findings if one.code == UNSCALED), None) is expected
