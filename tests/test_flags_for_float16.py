"""Scalers that a flag for float16 enables, beside a dtype that can be bfloat16."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

PROGRAM = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--dtype", choices=["float16", "bfloat16"])
args = parser.parse_args()
chosen = {{"float16": torch.float16, "bfloat16": torch.bfloat16}}[args.dtype]


class Trainer:
    def __init__(self, dtype):
        self.dtype = dtype
        self.scales = {flag}
        self.scaler = {scaler}

    def run(self, model, optimizer, batch):
        with torch.autocast("cuda", dtype=self.dtype):
            loss = model(batch).sum()
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()
"""
ENABLED = 'torch.amp.GradScaler("cuda", enabled=self.scales)'


@pytest.mark.parametrize(
    ("flag", "scaler", "expected"),
    [
        ("dtype == torch.float16", ENABLED, False),
        ("dtype == 'fp16'", ENABLED, False),
        ("dtype == torch.float16", 'torch.amp.GradScaler("cuda") if self.scales else None', False),
        ("dtype == torch.bfloat16", ENABLED, True),
        ("dtype != torch.float32", ENABLED, True),
    ],
)
def test_a_flag_that_compares_a_dtype(flag: str, scaler: str, expected: bool) -> None:
    program = PROGRAM.format(flag=flag, scaler=scaler)
    job = Job("program.py", "", program.encode(), (load_registry().rules["AMP209"],))
    assert bool(analyse(job, Modules()).findings) is expected
