"""Scalers that a flag for float16 enables, beside a dtype that can be bfloat16."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding

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


FLAGS = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--bf16", action="store_true")
args = parser.parse_args()


def train(model, optimizer, loader):
    if args.{made}:
        scaler = torch.amp.GradScaler("cuda")
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16 if args.bf16 else torch.float16):
            loss = model(batch).loss
        if args.{made}:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
"""


def _findings(program: str) -> list[Finding]:
    job = Job("program.py", "", program.encode(), (load_registry().rules["AMP209"],))
    return list(analyse(job, Modules()).findings)


def test_a_flag_for_float16_is_another_than_the_one_that_chooses_bfloat16() -> None:
    assert not _findings(FLAGS.format(made="fp16"))
    assert _findings(FLAGS.format(made="amp"))


RESOLVED = """
import torch

NAMES = {{"fp16": "float16", "float16": "float16", "bf16": "bfloat16", "bfloat16": "bfloat16"}}

def resolved(precision):
    return NAMES[precision.lower()]

def region(device, precision):
    precision = resolved(precision)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float16
    return torch.autocast(device_type=device.type, dtype=dtype)

def train(model, optimizer, loader, device, config):
    precision = str(config["precision"])
    scaler = torch.amp.GradScaler(device.type, enabled={enabled})
    for batch in loader:
        with region(device, precision):
            loss = model(batch).loss
        if scaler.is_enabled():
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("enabled", "expected"),
    [
        ('precision == "float16" and device.type == "cuda"', False),
        ('precision == "float16" or device.type == "cuda"', True),
        ('device.type == "cuda"', True),
    ],
)
def test_a_scaler_for_float16_where_a_function_chooses_the_dtype(enabled: str, expected: bool) -> None:
    assert bool(_findings(RESOLVED.format(enabled=enabled))) is expected


def test_no_repair_of_a_scaler_that_serves_float16_too() -> None:
    (finding,) = _findings(FLAGS.format(made="amp"))
    assert finding.fix is None


PLAYS = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--play", choices=["bf16", "fp32"], default="bf16")
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
played = {{"bf16": torch.bfloat16, "fp32": torch.float32}}[args.play]


def train(model, optimizer, loader, scaler):
    for batch in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"{dtype}):
            loss = model(batch).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def main(loader, play):
    model = torch.nn.Linear(10, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    for _ in range(10):
        play(model.to(played))
        train(model.float(), optimizer, loader, scaler)
"""


@pytest.mark.parametrize(("dtype", "told"), [("", False), (", dtype=torch.float16", False), (", dtype=played", True)])
def test_the_dtype_of_the_inference_is_not_that_of_the_training(dtype: str, told: bool) -> None:
    assert bool(_findings(PLAYS.format(dtype=dtype))) == told
