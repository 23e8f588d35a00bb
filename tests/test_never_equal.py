"""Values of kinds that are never equal, such as a dtype and a string, decide branches and switches."""

from __future__ import annotations

import pytest
import torch

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = load_registry().rules
BRANCHES = """
import numpy as np, torch
from settings import load
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return x

def run(net, x, other, name):
    kind = {kind}
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = net(x)
    if {test}:
        return None
    return np.array(out)

run(nn.Linear(4, 4), torch.ones(2, 4), load(), load())
"""
DTYPE, DTYPES = "torch.float16", '{"a": torch.float16, "b": torch.bfloat16}[name]'
DEVICE, EITHER = 'torch.device("cuda")', 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
CASES = [
    (DTYPE, 'kind == "float16"', False),
    (DTYPE, 'kind != "float16"', True),
    (DTYPE, 'kind in ("float16", "half")', False),
    (DTYPE, 'kind not in ["float16"]', True),
    (DTYPE, "kind == 5", False),
    (DTYPE, "kind == torch.half", True),
    (DTYPE, 'kind in ("float16", torch.float16)', True),
    (DTYPES, 'kind == "float16"', False),
    (DTYPES, "kind == torch.float16", None),
    (DEVICE, 'kind == "cuda"', False),
    (DEVICE, "kind == 0", False),
    (DEVICE, 'kind == torch.device("cuda:0")', None),
    (DEVICE, 'kind.type == "cuda"', True),
    (EITHER, 'kind == "cuda"', False),
    (EITHER, 'kind.type == "cuda"', None),
    ("torch.device(other)", 'kind == "cuda"', None),
    ("name", 'kind == "float16"', None),
    ("np.float16", 'kind == "float16"', None),
]


def found(program: str, *codes: str) -> set[str]:
    rules = tuple(RULES[code] for code in codes)
    return {one.code for one in findings_of(program, rules)}


@pytest.mark.parametrize(("kind", "test", "holds"), CASES)
def test_a_comparison_decides_a_branch(kind: str, test: str, holds: bool | None) -> None:
    program = BRANCHES.format(kind=kind, test=test)
    assert bool(found(program, "AMP501")) is (holds is not True)
    program = BRANCHES.format(kind=kind, test=f"not ({test})")
    assert bool(found(program, "AMP501")) is (holds is not False)


@pytest.mark.parametrize(("kind", "test", "holds"), [case for case in CASES if case[2] is not None])
def test_pytorch_compares_so(kind: str, test: str, holds: bool) -> None:
    values = {"torch": torch, "name": "a"}
    if kind != EITHER:
        assert eval(test, values | {"kind": eval(kind, values)}) is holds


SCALER = """
import torch

def train(model, batches, config):
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[config.dtype]
    scaler = torch.amp.GradScaler("cuda", enabled=(dtype == SWITCH))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    for x, y in batches:
        with torch.autocast("cuda", dtype=dtype):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        schedule.step()
"""


def test_a_scaler_that_a_comparison_disables() -> None:
    codes = ("AMP205", "AMP209", "AMP212")
    assert not found(SCALER.replace("SWITCH", '"float16"'), *codes)
    assert {"AMP205", "AMP212"} <= found(SCALER.replace("SWITCH", "torch.float16"), *codes)


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        ('(dtype == "float16")', True),
        ('dtype in ("float16", "fp16")', True),
        ("dtype == torch.float16", False),
        ('config.dtype == "float16"', False),
        ("False", True),
    ],
)
def test_float16_without_the_scaler_that_was_meant(switch: str, expected: bool) -> None:
    program = SCALER.replace("(dtype == SWITCH)", switch)
    assert bool(found(program, "AMP208")) is expected
    assert not found(program.replace("torch.float16}", "torch.bfloat16}"), "AMP208")
