"""Findings say one mistake once, at the place to edit, and what is true of the code at hand."""

from __future__ import annotations

import copy

import pytest
import torch

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from amplint.findings import Finding
from amplint.torchlib.optimizers import ELEMENTWISE, NORMALISING

RULES = load_registry().rules


def told(code: str, text: str, *, asked: bool = False) -> list[Finding]:
    """What one rule finds in a text, also unseen where it is `asked`."""
    raw = text.encode()
    assert screen((RULES[code],), raw, frozenset())
    job = Job("script.py", "/nowhere/script.py", raw, (RULES[code],), (), asked=frozenset({code} if asked else ()))
    return analyse(job, Modules()).findings


APEX = """from apex import amp

def prepare(model, optimizer):
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    return model, optimizer

def step(loss, optimizer):
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""
MMCV = """from mmcv.runner import auto_fp16, force_fp32

class Head:
    @auto_fp16()
    def forward(self, x):
        return x

    @force_fp32()
    def loss(self, x):
        return x
"""


@pytest.mark.parametrize(
    ("code", "text", "rows"), [("AMP702", APEX, [4, 8]), ("AMP703", MMCV, [1])], ids=["apex", "mmcv"]
)
def test_what_is_to_be_replaced_is_told_once_for_a_file(code: str, text: str, rows: list[int]) -> None:
    (finding,) = told(code, text)
    assert finding.span.start.row == 1
    assert f"({len(rows) + 1} places in this file)" in finding.message
    assert [note.span.start.row for note in finding.notes] == rows
    assert all(": use " in note.message for note in finding.notes)


def test_a_single_place_is_not_counted() -> None:
    (finding,) = told("AMP702", "from apex import amp\n")
    assert "places" not in finding.message


WINDOW = """import torch
from torch import nn

def fit(model, loader, optimizer, scaler, accumulation):
    for index, (inputs, targets) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(inputs), targets)
        {backward}
        if (index + 1) % {every} == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("backward", "every", "advice"),
    [
        ("scaler.scale(loss).backward()", "accumulation", "scaler.scale(loss / accumulation).backward()"),
        ("scaler.scale(loss).backward()", "4", "scaler.scale(loss / 4).backward()"),
        ("scaled = scaler.scale(loss)\n        scaled.backward()", "4", "(scaled / 4).backward()"),
    ],
)
def test_the_division_is_shown_as_it_will_stand(backward: str, every: str, advice: str) -> None:
    (finding,) = told("AMP302", WINDOW.format(backward=backward, every=every))
    assert finding.advice == f"Divide it before backward: {advice}."
    assert [note.message for note in finding.notes] == ["ends the window"]


LOOP = """import torch
from torch import nn

accumulation_steps = 4
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    for step in range(accumulation_steps):
        loss = nn.functional.mse_loss(model(torch.randn(8, 4)), torch.randn(8, 1))
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_loop_over_one_window_does_not_end_it() -> None:
    (finding,) = told("AMP302", LOOP)
    assert [note.message for note in finding.notes] == ["each run of this loop is one window"]


SAVE = """import torch
from torch import nn

def fit(model, loader, optimizer, scaler: torch.amp.GradScaler, path):
    {restore}
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, path)
"""


def test_a_checkpoint_that_nothing_restores_has_no_effect_yet() -> None:
    (unused,) = told("AMP211", SAVE.format(restore="pass"), asked=True)
    assert unused.reason.endswith("where a later run restores this state, which is not seen.")
    assert [(note.span.start.row, note.message) for note in unused.notes] == [(11, "the scaler that steps here")]
    (used,) = told("AMP211", SAVE.format(restore="optimizer.load_state_dict(torch.load(path)['optimizer'])"))
    assert "not seen" not in used.reason


STEP = """import torch
from torch import nn

def fit(model, loader):
    optimizer = torch.optim.{kind}(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
"""


def test_the_optimizers_arithmetic_is_blamed_only_where_it_is_cast() -> None:
    kinds = ("AdamW", "Adafactor")
    (adam,), (adafactor,) = (told("AMP102", STEP.format(kind=kind), asked=True) for kind in kinds)
    assert "atrix products" not in adam.reason
    assert "atrix products" in adafactor.reason


@pytest.mark.parametrize("kind", [*sorted(ELEMENTWISE), "Adafactor"])
def test_pytorch_steps_these_alike_in_a_region(kind: str) -> None:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(8, 8))
    other = copy.deepcopy(weight)
    for parameter, on in ((weight, False), (other, True)):
        torch.manual_seed(1)
        optimizer = getattr(torch.optim, kind)([parameter], lr=0.1)
        for _ in range(3):
            parameter.grad = torch.randn(8, 8)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
                optimizer.step()
    assert torch.equal(weight, other) is (kind in ELEMENTWISE)


@pytest.mark.parametrize("kind", sorted(ELEMENTWISE))
def test_a_factor_of_all_gradients_is_hidden_by_optimizers_that_divide_by_their_size(kind: str) -> None:
    def moved(factor: float) -> torch.Tensor:
        weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
        optimizer = getattr(torch.optim, kind)([weight], lr=0.1)
        for step in range(5):
            weight.grad = torch.tensor([0.5, -1.0, 2.0]) * (step + 1) * factor
            optimizer.step()
        return weight.detach() - torch.tensor([1.0, -2.0, 3.0])

    assert torch.allclose(moved(1024.0), moved(1.0), rtol=0.05) is (kind in NORMALISING)
