"""Training under a float16 region that is entered for a dtype which nothing chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_unreached import lint

SCRIPT = """
import torch


class Trainer:
    def __init__(self, model, narrow=False):
        {choice}
        self.model = model.to("cuda")
        self.compute_dtype = {given}


def epoch(trainer: Trainer, batches, optimizer):
    for x in batches:
        if trainer.compute_dtype == torch.bfloat16:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = trainer.model(x).mean()
        elif trainer.compute_dtype == torch.float16:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = trainer.model(x).mean()
        else:
            loss = trainer.model(x).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def adapt(trainer):
    {more}
"""
BRANCHES = "if narrow:\n            dtype = torch.bfloat16\n        else:\n            dtype = torch.float32"
ANY = BRANCHES.replace("torch.float32", "getattr(torch, narrow)")
HALF = BRANCHES.replace("torch.float32", "torch.half")


@pytest.mark.parametrize(
    ("choice", "given", "more", "told"),
    [
        (BRANCHES, "dtype", "pass", False),
        (HALF, "dtype", "pass", True),
        (ANY, "dtype", "pass", True),
        ("pass", "torch.bfloat16 if narrow else torch.float32", "pass", False),
        ("pass", "torch.bfloat16 if narrow else torch.float16", "pass", True),
        ("pass", "narrow", "pass", True),
        (BRANCHES, "dtype", "trainer.compute_dtype = torch.float16", True),
        (BRANCHES, "dtype", "trainer.compute_dtype = torch.bfloat16", False),
        (BRANCHES, "dtype", "setattr(trainer, 'compute_dtype', torch.float16)", True),
        (BRANCHES, "dtype", "given = dict(compute_dtype=torch.float16)", True),
    ],
)
def test_dtype_of_an_attribute(tmp_path: Path, choice: str, given: str, more: str, told: bool) -> None:
    files = {"train.py": SCRIPT.format(choice=choice, given=given, more=more)}
    assert bool(lint(tmp_path, files, "train.py", "AMP208")) is told
