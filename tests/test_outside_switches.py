"""Public flags that a constructor switches off, which users of the object switch on."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from tests.linting import findings_of

RULES = load_registry().rules
CLASS = """
import torch
from torch import nn
{imports}

class Learner{bases}:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.scaler = torch.amp.GradScaler("cuda")
        self.{flag} = {value}

    def step(self, x):
        if {condition}:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(x).mean()
            self.scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss = self.model(x).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        self.optimizer.zero_grad()
"""


def told(**parts: str) -> list[str]:
    given = {"imports": "", "bases": "", "flag": "half", "value": "False", "condition": "self.half"}
    raw = CLASS.format(**{**given, **parts}).encode()
    rules = screen([rule for rule in RULES.values() if rule.default], raw, frozenset())
    found = findings_of(raw, rules, path="/nowhere/script.py")
    return [one.code for one in found if one.code.startswith("AMP2")]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"bases": "(nn.Module)"},
        {"condition": "self.half is True"},
        {"flag": "use_amp", "condition": "self.use_amp and torch.cuda.is_available()"},
    ],
)
def test_flag_set_by_users(parts: dict[str, str]) -> None:
    assert told(**parts) == ["AMP205"]


@pytest.mark.parametrize(
    "parts",
    [
        {"flag": "_half", "condition": "self._half"},
        {"imports": "import lightning", "bases": "(lightning.LightningModule)"},
    ],
)
def test_private_flag_and_setting_of_a_base(parts: dict[str, str]) -> None:
    assert told(**parts) == []


SETTING = """
import torch
import torch.nn.functional as F

def train_step(model, loader, optimizer, half):
    if {condition}:
        scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        if {condition}:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

def fit(model, loader, optimizer, epochs, half):
    for epoch in range(epochs):
        train_step(model, loader, optimizer, half)
"""


@pytest.mark.parametrize("condition", ["half", "half is True", "half is not False", "half == True", "half == 'amp'"])
def test_scaler_of_a_setting_is_made_anew(condition: str) -> None:
    raw = SETTING.format(condition=condition).encode()
    rules = screen([rule for rule in RULES.values() if rule.default], raw, frozenset())
    found = findings_of(raw, rules, path="/nowhere/script.py")
    assert [one.code for one in found if one.code == "AMP210"] == ["AMP210"]
