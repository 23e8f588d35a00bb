"""Reads of the loss scale behind a call that has waited for the GPU already, which cost nothing more."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

PROGRAM = """
import torch

scaler = torch.amp.GradScaler("cuda")

def train(model, optimizer, loader, meter, log):
    for step, batch in enumerate(loader):
        optimizer.zero_grad()
        loss = model(batch).sum()
        scaler.scale(loss).backward()
{body}
"""
STEP = "scaler.step(optimizer)\nscaler.update()\n"
READ = "meter.update(scaler.get_scale())"
CASES = {
    STEP + READ: True,
    STEP + "torch.cuda.synchronize()\n" + READ: False,
    STEP + "log(loss.item())\n" + READ: False,
    "log(loss.item())\n" + STEP + READ: True,
    STEP + "if step % 100 == 0:\n    log(loss.item())\n" + READ: True,
    STEP + "torch.cuda.synchronize()\nmeter.update(len(batch))\n" + READ: False,
    "if log:\n" + textwrap.indent(STEP, "    ") + "torch.cuda.synchronize()\n" + READ: False,
}


@pytest.mark.parametrize(("body", "expected"), CASES.items())
def test_a_read_of_the_scale(body: str, expected: bool) -> None:
    program = PROGRAM.format(body=textwrap.indent(body, " " * 8))
    job = Job("program.py", "", program.encode(), (load_registry().rules["AMP219"],))
    assert bool(analyse(job, Modules()).findings) is expected
