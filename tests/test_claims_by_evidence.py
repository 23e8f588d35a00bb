"""Claims that stop where their evidence does: names, means, devices, outputs that leave, and calls that raise."""

from __future__ import annotations

import pytest
import torch

from amplint import Settings, fix
from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding, Severity

RULES = tuple(load_registry().rules.values())


def told(text: str, code: str) -> list[Finding]:
    """What a rule finds in a program."""
    job = Job("script.py", "/nowhere/script.py", text.encode(), RULES)
    return [one for one in analyse(job, Modules()).findings if one.code == code]


EVALUATED = """
import numpy
import torch


def train(model, loader, optimizer, criterion):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()


def evaluate(model, loader, meter):
    model.eval()
    kept = []
    with torch.no_grad():
        for x, y in loader:
            scores = model(x)
            {used}
    {behind}
    return kept
"""


@pytest.mark.parametrize(
    ("used", "behind", "repaired"),
    [
        ("kept.append(scores.argmax(1).cpu().numpy())", "", True),
        ("_, best = scores.max(1)\n            kept.append(best.cpu().numpy())", "", True),
        ("kept.append((scores > 0).cpu().numpy())", "", True),
        ("kept.append(scores.float().cpu().numpy())", "", True),
        ("meter.update((scores - scores).sum().item())", "", True),
        ("kept.append(scores)", "kept = torch.cat(kept).argmax(1).tolist()", True),
        ("kept.append(scores.sigmoid().cpu().numpy())", "", False),
        ("best = scores[0].detach()\n            kept.append(best.to('cpu'))", "", False),
        ("kept.append(scores)", "kept = torch.cat(kept).cpu()", False),
        ("meter.update((scores, y))", "", False),
    ],
)
def test_no_region_hands_half_to_the_cpu_or_an_object(used: str, behind: str, repaired: bool) -> None:
    program = EVALUATED.format(used=used, behind=behind)
    after = fix(program, Settings(select=("AMP111",), unsafe_fixes=True)).after.decode()
    assert told(program, "AMP111")
    assert (after != program) is repaired


def test_numpy_refuses_what_the_region_would_give() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = torch.nn.Linear(3, 3)(torch.ones(2, 3))
    with pytest.raises(TypeError):
        scores.detach().numpy()


OTHERWISE = """

def train_in_parts(model, loader, optimizer, criterion):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""
RUN = """

def run(model, loader, optimizer, criterion, meter):
    train(model, loader, optimizer, criterion)
    evaluate(model, loader, meter)
"""


@pytest.mark.parametrize(
    ("more", "expected"), [("", 1), (OTHERWISE, 0), (OTHERWISE + RUN, 1), (OTHERWISE.replace("model", "net"), 1)]
)
def test_a_name_does_not_say_which_training_a_model_has_had(more: str, expected: int) -> None:
    program = EVALUATED.format(used="kept.append(scores.argmax(1))", behind="")
    assert len(told(program + more, "AMP111")) == expected


WINDOW = """
import torch


def train(model, loader, every, criterion):
    optimizer = torch.optim.AdamW(model.parameters())
    model.train()
    for step, (x, y) in enumerate(loader):
        {loss}
        loss.backward()
        if (step + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("loss", "severity"),
    [
        ("loss = model(x, y)", Severity.INFO),
        ("loss = criterion(model(x), y)", Severity.WARNING),
        ("scores, loss = model(x, y)", Severity.WARNING),
        ("loss = model(x, y).loss", Severity.WARNING),
    ],
)
def test_what_only_a_model_returns_can_be_a_sum(loss: str, severity: Severity) -> None:
    (found,) = told(WINDOW.format(loss=loss), "AMP302")
    assert found.severity is severity
    assert ("the model returns a mean over its batch" in found.reason) is (severity is Severity.INFO)


CAMERA = """
import torch


def step(model, optimizer, scaler, x, table, {more}):
    with torch.autocast("cuda", dtype=torch.float16):
        camera = {camera}
        loss = (model(x) * camera.inverse().cuda()).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("camera", "expected"),
    [
        ("more.float() @ torch.from_numpy(table).float()", 0),
        ("torch.diag(torch.from_numpy(table).float()) @ more", 0),
        ("more @ torch.from_numpy(table).cuda()", 1),
        ("more @ more.T", 1),
    ],
)
def test_a_region_for_cuda_casts_no_product_of_arrays(camera: str, expected: int) -> None:
    assert len(told(CAMERA.format(camera=camera, more="more"), "AMP503")) == expected


TWICE = """
from accelerate import Accelerator


class Engine:
    def __init__(self, model, optimizer, limit):
        self.accelerator = Accelerator(mixed_precision="fp16")
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.limit = limit

    def update(self, loss, again):
        self.accelerator.backward(loss)
        self.accelerator.clip_grad_norm_(self.model.parameters(), self.limit)
        if again:
            self.accelerator.clip_grad_norm_(self.model.parameters(), 2 * self.limit)
            self.optimizer.first_step()
        else:
            self.optimizer.step()

    def run(self, loader):
        for x in loader:
            self.update(self.model(x), self.again)
"""


def test_a_clip_that_raises_is_the_last_of_its_path() -> None:
    lines = [one.span.start.row for one in told(TWICE, "AMP201")]
    assert [TWICE.splitlines()[line - 1].strip() for line in lines] == [
        "self.accelerator.clip_grad_norm_(self.model.parameters(), 2 * self.limit)"
    ]


ENTROPY = """
import torch
from transformers import AutoModelForCausalLM


def run(name, ids):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    with {mode}:
        hidden = model.model(ids)[0]
        top = torch.full((4,), 0.0, device=hidden.device, dtype=hidden.dtype)
        scores = torch.nn.functional.linear(hidden, model.lm_head.weight)
        weights = (scores - top.unsqueeze(-1)).exp()
    loss = weights.mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("mode", "expected"), [("torch.no_grad()", 0), ("torch.enable_grad()", 1)])
def test_what_autograd_does_not_record_is_part_of_no_loss(mode: str, expected: int) -> None:
    assert sum("exp" in one.message for one in told(ENTROPY.format(mode=mode), "AMP408")) == expected
