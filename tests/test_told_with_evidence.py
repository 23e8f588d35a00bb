"""Findings that need something which speaks for them: other devices, weights that are updated, copies that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from tests.test_unreached import lint

DEVICE = """
import torch
{more}


def evaluate(model, loader):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    {made}
    found = []
    for x in loader:
        with torch.autocast("cuda"):
            y = model(x.to(device))
        {then}
    return found
"""


@pytest.mark.parametrize(
    ("more", "made", "kernels", "told"),
    [
        ("from net import make", "model = make().to(device)", "import torch\n", True),
        ("from net import make", "model = make().to(device)", "from mamba_ssm import Mamba\n", False),
        (
            "from net import make",
            "model = make().to(device)",
            "try:\n    import triton\nexcept ImportError:\n    pass\n",
            True,
        ),
        ("from transformers import Big", "model = Big.from_pretrained('big', device_map='cuda:1')", "", False),
        ("from transformers import Big", "model = Big.from_pretrained('big', device_map={'': 0})", "", False),
        ("from transformers import Big", "model = Big.from_pretrained('big', device_map=1)", "", False),
        ("from transformers import Big", "model = Big.from_pretrained('big', device_map={'head': 'cpu'})", "", True),
        ("from transformers import Big", "model = Big.from_pretrained('big', device_map='auto')", "", True),
        ("from transformers import Big", "model = Big.from_pretrained('big', load_in_4bit=True)", "", False),
        ("from transformers import Big", "model = Big.from_pretrained('big', load_in_4bit=False)", "", True),
    ],
)
def test_libraries_and_models_of_cuda_alone(tmp_path: Path, more: str, made: str, kernels: str, told: bool) -> None:
    files = {
        "run.py": DEVICE.format(more=more, made=made, then="found.append(y)"),
        "net.py": f"{kernels}\n\ndef make():\n    return build(1)\n",
    }
    assert bool(lint(tmp_path, files, "run.py", "AMP106")) is told


@pytest.mark.parametrize(
    ("then", "enabled"),
    [
        ("found.append(y)", False),
        ("found.append(y.cpu().numpy())", True),
        ("found.append(y.float().numpy())", False),
    ],
)
def test_advice_where_numpy_follows(tmp_path: Path, then: str, enabled: bool) -> None:
    script = DEVICE.format(more="", made="model.to(device)", then=then)
    (found,) = lint(tmp_path, {"run.py": script}, "run.py", "AMP106")
    assert ("enabled=" in found.advice) is enabled


@pytest.mark.parametrize(("dtype", "kept"), [("float16", False), ("bfloat16", True)])
def test_advice_for_regions_with_a_dtype(tmp_path: Path, dtype: str, kept: bool) -> None:
    script = DEVICE.format(more="", made="model.to(device)", then="found.append(y)")
    script = script.replace('"cuda")', f'"cuda", dtype=torch.{dtype})')
    (found,) = lint(tmp_path, {"run.py": script}, "run.py", "AMP106")
    assert ("dtype=..." in found.advice) is kept


TEACHER = """
import torch


class Student(torch.nn.Module):
    def __init__(self, teacher, net):
        super().__init__()
        self.teacher = teacher
        self.coder = self.teacher.coder
        self.net = net
        print(sum(p.numel() for p in self.teacher.parameters()))
        {frozen}

    def train_step(self, x, optimizer):
        with torch.autocast("cuda"):
            loss = self.net(self.{model}(x)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    @torch.no_grad()
    def sample(self, x):
        self.eval()
        return self.{model}(x)
"""
LOOPED = "for p in self.teacher.parameters():\n            p.requires_grad = False"


@pytest.mark.parametrize(
    ("frozen", "model", "told"),
    [
        ("", "teacher", True),
        (LOOPED, "teacher", False),
        (LOOPED, "coder", False),
        (LOOPED, "net", True),
        ("self.teacher.requires_grad_(False)", "teacher", False),
        ("self.teacher.requires_grad_(False)\n        self.teacher.head.requires_grad_(True)", "teacher", True),
    ],
)
def test_frozen_models_are_not_trained(frozen: str, model: str, told: bool) -> None:
    found = check(TEACHER.format(frozen=frozen, model=model), filename="train.py")
    assert ("AMP111" in {one.code for one in found}) is told


WINDOW = """
import torch
{more}

def train(model, loader):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        for x in loader:
            loss = {run}.mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("more", "run", "told"),
    [
        ("", "model(x)", True),
        ("from torch.utils.checkpoint import checkpoint", "checkpoint(model, model(x), use_reentrant=False)", False),
    ],
)
def test_copies_that_recomputation_clears(more: str, run: str, told: bool) -> None:
    found = check(WINDOW.format(more=more, run=run), filename="train.py")
    assert ("AMP102" in {one.code for one in found}) is told


CONDITIONS = """
def step(loss, scaler, optimizer):
    if {first}:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    if {second}:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    optimizer.zero_grad()
"""
GIVEN = "scaler is not None and "


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (f"{GIVEN}scaler.is_enabled()", f"{GIVEN}scaler.is_enabled()", False),
        (f"{GIVEN}getattr(scaler, 'is_enabled', lambda: False)()", f"{GIVEN}scaler.is_enabled()", False),
        (f"{GIVEN}ready(loss)", f"{GIVEN}scaler.is_enabled()", True),
    ],
)
def test_a_scaler_that_is_asked_twice(first: str, second: str, told: bool) -> None:
    found = check(CONDITIONS.format(first=first, second=second), filename="train.py")
    assert ("AMP207" in {one.code for one in found}) is told


ACCUMULATED = """
import torch
from accelerate import Accelerator


def train(model, loader):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    optimizer = torch.optim.Adam(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x in loader:
        with accelerator.accumulate(model):
            loss = model(x).mean()
            if torch.isnan(loss):
                optimizer.zero_grad()
                {then}
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(("then", "told"), [("print(loss)", True), ("continue", False)])
def test_gradients_of_a_micro_batch_that_is_given_up(then: str, told: bool) -> None:
    found = check(ACCUMULATED.format(then=then), filename="train.py")
    assert ("AMP304" in {one.code for one in found}) is told
