"""Files without training that save the scaler's state and do not restore it, or the reverse, or leave it out."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = load_registry().rules
FUNCTIONS = """
import torch
from torch.amp import GradScaler

def save(path, model, optimizer, scaler: GradScaler):
    state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict(), {saved}}}
    torch.save(state, path)

def load(path, model, optimizer, scaler: GradScaler):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    {restored}
"""
SAVED = '"scaler": scaler.state_dict()'
RESTORED = 'scaler.load_state_dict(state["scaler"])'
BASE = """
import torch

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    def save(self, path):
        state = {{"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}}
        {saved}
        torch.save(state, path)

    def train_step(self, batch):
        raise NotImplementedError
"""
WRAPPER = """
import torch

class Wrapped:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def state_dict(self):
        return self._scaler.state_dict()

def save(path, model, optimizer, loss_scaler):
    save_on_master({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

def load(state, optimizer, loss_scaler):
    optimizer.load_state_dict(state["optimizer"])
    loss_scaler.load_state_dict(state["scaler"])
"""
LISTED = """
import torch
from torch.amp import GradScaler

def save(path, parts, optimizer, scaler: GradScaler):
    rest = {key: one.state_dict() for key, one in parts.items()}
    torch.save({"optimizer": optimizer.state_dict(), "rest": rest}, path)

def load(state, optimizer, scaler):
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
"""
PASSED = """
import torch
from torch.amp import GradScaler

def save(path, optimizer, scaler: GradScaler):
    save_checkpoint(path, {"optimizer": optimizer.state_dict()}, scaler)

def load(state, optimizer, scaler):
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
"""


def told(program: str, *, asked: bool = True) -> list[str]:
    """The messages of AMP211, selected by its code if `asked`."""
    job = Job(
        "program.py", "", program.encode(), tuple(RULES.values()), asked=frozenset(RULES) if asked else frozenset()
    )
    return [one.message for one in analyse(job, Modules()).findings if one.code == "AMP211"]


def test_what_is_saved_and_never_restored() -> None:
    (message,) = told(FUNCTIONS.format(saved=SAVED, restored="pass"))
    assert message.startswith("the optimizer's state is restored here, the scaler's is saved but never restored")


@pytest.mark.parametrize("program", [FUNCTIONS.format(saved="", restored=RESTORED), WRAPPER])
def test_what_is_restored_and_never_saved(program: str) -> None:
    (message,) = told(program)
    assert message.startswith("the optimizer's state is saved here, the scaler's is restored but never saved")


def test_a_base_class_is_told_where_selected() -> None:
    assert len(told(BASE.format(saved="pass"))) == 1
    assert not told(BASE.format(saved="pass"), asked=False)


@pytest.mark.parametrize(
    "program",
    [
        FUNCTIONS.format(saved=SAVED, restored=RESTORED),
        BASE.format(saved='state["scaler"] = self.scaler.state_dict()'),
        LISTED,
        PASSED,
    ],
)
def test_what_is_or_may_be_saved_on_both_sides(program: str) -> None:
    assert not told(program)
