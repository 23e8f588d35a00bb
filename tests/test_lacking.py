"""Findings behind attributes that objects lack, variables that are not bound yet, and calls that methods refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_unreached import lint

LOOP = """
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x, y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
PASSED = (
    """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader):
    {read}"""
    + LOOP
    + """

def main(model, loader):
    {wrapped}
    train(model, loader)
"""
)


def runs(folder: Path, script: str, **others: str) -> bool:
    """Whether the clipping of scaled gradients in a script is told."""
    files = {"train.py": script, **{f"{name}.py": text for name, text in others.items()}}
    return bool(lint(folder, files, "train.py", "AMP205"))


@pytest.mark.parametrize(
    ("wrapped", "read", "told"),
    [
        ("model = DDP(model)", "model.encode(loader)", False),
        ("model = DDP(model)", "model.module.encode(loader)", True),
        ("model = DDP(model)", "model.train()", True),
        ("if loader:\n        model = DDP(model)", "model.encode(loader)", True),
        ("model = DDP(model)\n    train(model.module, loader)", "model.encode(loader)", True),
    ],
)
def test_wrappers_that_another_function_makes(tmp_path: Path, wrapped: str, read: str, told: bool) -> None:
    assert runs(tmp_path, PASSED.format(wrapped=wrapped, read=read)) is told


HELD = (
    """
import torch
from torch import nn


class Trainer{bases}:
    {more}

    def __init__(self, model):
        self.model = model
        {made}

    def train(self, loader):
        model = self.model
        {read}"""
    + LOOP.replace("\n    ", "\n        ")
    + """

def main(model, loader):
    Trainer(model).train(loader)
"""
)


@pytest.mark.parametrize(
    ("bases", "more", "made", "read", "told"),
    [
        ("", "", "", "print(self.options)", False),
        ("(nn.Module)", "", "super().__init__()", "print(self.options)", False),
        ("(nn.Module)", "", "super().__init__()", "print(self.training)", True),
        ("", "options = 1", "", "print(self.options)", True),
        ("", "", "self.options = 1", "print(self.options)", True),
        ("", "", "setattr(self, 'options', 1)", "print(self.options)", True),
        ("(Base)", "", "", "print(self.options)", True),
        ("", "", "", "print(getattr(self, 'options', 1))", True),
        ("", "", "", "if loader:\n            print(self.options)", True),
        ("", "", "self.model = nn.DataParallel(model)", "self.model.encode(loader)", False),
        ("", "", "self.model = nn.DataParallel(model) if model else model", "self.model.encode(loader)", True),
        ("", "def show(self, one): pass", "", "self.show(loader, 2)", False),
        ("", "def show(self, one): pass", "", "self.show(loader)", True),
        ("", "def show(self, one, *more): pass", "", "self.show(loader, 2)", True),
    ],
)
def test_attributes_and_methods_of_a_class(
    tmp_path: Path, bases: str, more: str, made: str, read: str, told: bool
) -> None:
    script = HELD.format(bases=bases, more=more, made=made, read=read)
    assert runs(tmp_path, script if bases != "(Base)" else f"from elsewhere import Base\n{script}") is told


def test_an_attribute_that_another_file_sets(tmp_path: Path) -> None:
    script = HELD.format(bases="", more="", made="", read="print(self.options)")
    other = "from train import Trainer\n\n\ndef make(model):\n    trainer = Trainer(model)\n    trainer.options = 1\n"
    assert runs(tmp_path, script, other=other)


PARSED = (
    """
import argparse
import torch
import settings


class Net(torch.nn.Module):
    def forward(self, x, y):
        return (x - y).sum()


def main(loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning-rate", type=float)
    {more}
    args = parser.parse_args()
    model = Net().cuda()
    {read}"""
    + LOOP
    + """

main([])
"""
)


@pytest.mark.parametrize(
    ("more", "read", "told"),
    [
        ("", "print(args.learning_rate)", True),
        ("", "print(args.momentum)", False),
        ("print(parser)", "print(args.momentum)", True),
        ("parser.set_defaults(momentum=1)", "print(args.momentum)", True),
        ("", "args.momentum = 1\n    print(args.momentum)", True),
        ("", "print(settings.rate)", True),
        ("", "print(settings.momentum)", False),
        ("", "model(loader)", False),
        ("", "model(loader, loader)", True),
        ("", "count = count + 1", False),
        ("", "count = 0\n    count = count + 1", True),
        ("", "for one in loader:\n        count = count + 1 if one else 0", True),
        ("", "try:\n        count = 0\n    finally:\n        print(count)", True),
        ("", "if loader:\n        count = count + 1\n    else:\n        count = count - 1", False),
        ("", "if loader:\n        count = 0\n    else:\n        count = count - 1", True),
        ("", "with open('a') as file:\n        print(file)", True),
    ],
)
def test_options_modules_models_and_variables(tmp_path: Path, more: str, read: str, told: bool) -> None:
    script = PARSED.format(more=more, read=read)
    assert runs(tmp_path, script, settings="rate = 1.0\n") is told
