"""`--to amp` with losses computed, and optimizers constructed, in other files."""

from __future__ import annotations

import io
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

from amplint.codemods import Wish, convert

DIFFUSION = """import torch


class GaussianDiffusion:
    def __init__(self, steps):
        self.steps = steps
        self.alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, steps), 0)

    def training_losses(self, model, x, t, weights=None):
        noise = torch.cos(torch.arange(x.numel()).view_as(x) + t[:, None])
        alpha = self.alphas[t][:, None]
        error = (model(alpha.sqrt() * x + (1 - alpha).sqrt() * noise, t) - noise).pow(2).mean(1)
        return {"mse": error, "loss": error if weights is None else error * weights}
"""
LOOP = """import functools
import threading

import torch
from torch import nn
from torch.optim import AdamW

from others import GaussianDiffusion


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 8)
        self.net = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 8))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.embedding(t)], 1))


class TrainLoop:
    def __init__(self, model, diffusion, data):
        self.model = model
        self.diffusion = diffusion
        self.data = data
        self.lock = threading.Lock()
        self.opt = AdamW(self.model.parameters(), lr=1e-3)
        self.history = []

    def run(self, steps):
        for step in range(steps):
            self.forward_backward(next(self.data))
            with self.lock:
                self.opt.step()

    def forward_backward(self, batch):
        self.opt.zero_grad()
        for start in range(0, len(batch), 8):
            micro = batch[start : start + 8]
            t = torch.arange(len(micro)) * 7
            LOSSES
            loss = losses["loss"].mean()
            self.history.append(loss.item())
            loss.backward()


def batches():
    while True:
        yield torch.randn(16, 8)


def main():
    torch.manual_seed(0)
    loop = TrainLoop(Denoiser(), GaussianDiffusion(100), batches())
    loop.run(5)
    return loop.history


losses = main()
"""
DIRECT = "losses = self.diffusion.training_losses(self.model, micro, t)"
LATER = """compute_losses = functools.partial(self.diffusion.training_losses, self.model, micro, t)
            losses = compute_losses()"""
BASE = """from abc import ABC


class Base(ABC):
    def compute_loss(self, batch):
        inputs, labels = batch
        return self.criterion(self.model(inputs), labels)
"""
ABSTRACT = """from abc import ABC, abstractmethod


class Base(ABC):
    @abstractmethod
    def compute_loss(self, batch):
        \"\"\"The loss of a batch.\"\"\"
"""
DERIVED = """import torch
from torch import nn

from others import Base


class Trainer(Base):
    def __init__(self, model):
        self.model = model
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.losses = []

    def fit(self, batches):
        self.model.train()
        for batch in batches:
            self.optimizer.zero_grad()
            loss = self.compute_loss(batch)
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())
        return self.losses


torch.manual_seed(0)
data = [(torch.randn(8, 4), torch.arange(8) % 3) for _ in range(10)]
losses = Trainer(nn.Linear(4, 3)).fit(data)
"""
ENGINE = """from torch import nn


def train_one_epoch(model, optimizer, loader, epoch):
    model.train()
    criterion = nn.CrossEntropyLoss()
    losses = []
    for inputs, labels in loader:
        outputs = model(inputs)
        optimizer.zero_grad()
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
"""
FIT = """from torch import nn


def fit(model, optimizer, loader, epochs):
    criterion = nn.CrossEntropyLoss()
    losses = []
    for epoch in range(epochs):
        for inputs, labels in loader:
            loss = criterion(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
"""
MAIN = """import torch
from torch import nn
from program import CALLED

torch.manual_seed(0)
data = [(torch.randn(8, 4), torch.arange(8) % 3) for _ in range(10)]
model = nn.Linear(4, 3)
losses = CALLED(model, torch.optim.SGD(model.parameters(), lr=0.1), data, 2)
"""


def run(folder: Path, text: str, others: str, main: str = "") -> list[float]:
    """The losses of a program that imports another file, or that another file imports."""
    (folder / "program.py").write_text(text, encoding="utf-8")
    (folder / "others.py").write_text(others, encoding="utf-8")
    (folder / "main.py").write_text(main, encoding="utf-8")
    with mock.patch.object(sys, "path", [str(folder), *sys.path]), redirect_stdout(io.StringIO()):
        try:
            losses: list[float] = runpy.run_path(str(folder / ("main.py" if main else "program.py")))["losses"]
        finally:
            for name in ("program", "others"):
                sys.modules.pop(name, None)
    return losses


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("how", [DIRECT, LATER], ids=["direct", "later"])
def test_a_loss_of_an_object_that_is_handed_the_model(tmp_path: Path, how: str, dtype: str) -> None:
    text = LOOP.replace("LOSSES", how)
    (tmp_path / "others.py").write_text(DIFFUSION, encoding="utf-8")
    found = convert(text, Wish(to="amp", device="cpu", dtype=dtype), str(tmp_path / "program.py"))
    header = f'with torch.autocast(device_type="cpu", dtype=torch.{dtype}):'
    body = how.splitlines()[-1].strip() + '\n                loss = losses["loss"].mean()\n'
    if how == DIRECT:
        body = "losses = self.diffusion.training_losses(self.model, micro, t)\n            loss = "
    expected = f"            {header}\n                {body}"
    assert (found.refused, expected in found.text) == ((), True)
    assert run(tmp_path, found.text, DIFFUSION) == pytest.approx(run(tmp_path, text, DIFFUSION), rel=0.02)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("base", [BASE, ABSTRACT], ids=["inherited", "abstract"])
def test_a_loss_of_a_method_that_others_write(tmp_path: Path, base: str, dtype: str) -> None:
    (tmp_path / "others.py").write_text(base, encoding="utf-8")
    found = convert(DERIVED, Wish(to="amp", device="cpu", dtype=dtype), str(tmp_path / "program.py"))
    header = f'with torch.autocast(device_type="cpu", dtype=torch.{dtype}):'
    expected = f"            {header}\n                loss = self.compute_loss(batch)\n"
    assert (found.refused, expected in found.text) == ((), True)
    if base is BASE:
        assert run(tmp_path, found.text, base) == pytest.approx(run(tmp_path, DERIVED, base), rel=0.02)


def test_an_optimizer_of_a_caller_out_of_sight(tmp_path: Path) -> None:
    found = convert(ENGINE, Wish(to="amp", device="cpu"), str(tmp_path / "program.py"))
    assert found.refused == ()
    assert "def train_one_epoch(model, optimizer, loader, epoch, scaler=None):" in found.text
    assert '    if scaler is None:\n        scaler = torch.amp.GradScaler("cpu")\n    for inputs' in found.text
    assert "loss = criterion(outputs, labels)\n        optimizer.zero_grad()\n" in found.text
    assert [remark.text for remark in found.left] == [
        "each call makes a scaler, which has to find its scale anew; pass one for all of them"
    ]
    main = MAIN.replace("CALLED", "train_one_epoch")
    assert run(tmp_path, found.text, "", main) == pytest.approx(run(tmp_path, ENGINE, "", main), rel=0.02)


def test_a_loop_over_epochs_makes_the_scaler(tmp_path: Path) -> None:
    found = convert(FIT, Wish(to="amp", device="cpu"), str(tmp_path / "program.py"))
    assert (found.refused, found.left) == ((), ())
    assert '    scaler = torch.amp.GradScaler("cpu")\n    for epoch in range(epochs):\n' in found.text
    main = MAIN.replace("CALLED", "fit")
    assert run(tmp_path, found.text, "", main) == pytest.approx(run(tmp_path, FIT, "", main), rel=0.02)


def test_a_single_step_makes_no_scaler() -> None:
    head, _, body = ENGINE.partition("    for inputs, labels in loader:\n")
    text = head.replace("loader", "inputs, labels") + body.replace("        ", "    ")
    found = convert(text, Wish(to="amp", device="cpu"))
    assert ["gets its optimizer from code out of sight" in remark.text for remark in found.refused] == [True]


GIVEN_LOSS = """import torch
from torch import nn


class Trainer:
    def __init__(self, model, batches, optimizer):
        self.model = model
        self.batches = batches
        self.optimizer = optimizer

    def train(self, get_loss, parallel):
        self.model.train()
        model = {model}
        if parallel:
            model = nn.DataParallel(model)
        for batch in self.batches:
            self.optimizer.zero_grad()
            loss = get_loss(model, batch).mean()
            loss.backward()
            self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("model", "converts"),
    [("self.model.cuda()", True), ("self.model", True), ("self.batches.cuda()", False)],
)
def test_a_loss_that_is_handed_a_moved_or_wrapped_model_runs_it(model: str, converts: bool) -> None:
    conversion = convert(GIVEN_LOSS.format(model=model), Wish(to="amp"))
    if not converts:
        (remark,) = conversion.refused
        assert remark.text == "no forward pass of a model was found that this loss comes from"
        return
    assert "float16):\n                loss = get_loss(model, batch).mean()\n" in conversion.text
    (remark,) = conversion.left
    assert remark.text.startswith("this runs the model and computes a loss out of sight")


MODULES = """import torch
from modules import GeneratorFull
from batchnorm import Replicated


def train(config, generator, discriminator, loader, devices):
    optimizer = torch.optim.Adam(generator.parameters(), lr=config["lr"])
    full = GeneratorFull(generator, discriminator, config)
    if torch.cuda.is_available():
        full = Replicated(full, device_ids=devices)
    for x in loader:
        losses, generated = full(x)
        loss = sum(one.mean() for one in losses.values())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_the_construction_of_a_module_that_takes_a_model_runs_nothing() -> None:
    conversion = convert(MODULES, Wish(to="amp", dtype="bfloat16"))
    assert conversion.refused == ()
    assert conversion.text.count("torch.autocast(") == 1
    assert "bfloat16):\n            losses, generated = to_float32(full(x))\n        loss = sum(" in conversion.text
    row = 1 + next(at for at, one in enumerate(conversion.text.splitlines()) if "full(x)" in one)
    assert [remark.row for remark in conversion.left] == [row]


HELPER = """def get_numpy(tensor):
    return tensor.to("cpu").detach().numpy()
"""
STATISTICS = """import numpy as np
import torch
import torch.nn.functional as F

import helper


class Trainer:
    def __init__(self, qf, target):
        self.qf = qf.cuda()
        self.target = target.cuda()
        self.optimizer = torch.optim.Adam(self.qf.parameters())

    def train(self, batch):
        loss, found = self.compute(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return found

    def compute(self, batch):
        x, rewards = batch["x"], batch["rewards"]
        first, second = self.qf(x), self.target(x)
        goal = rewards + 0.9 * second
        loss = F.mse_loss(first, goal.detach())
        return loss, {"first": helper.get_numpy(first), "goal": np.mean(helper.get_numpy(goal))}
"""


def test_what_certainly_is_bfloat16_is_cast_for_a_helper_though_another_may_be_too(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    conversion = convert(STATISTICS, Wish(to="amp", dtype="bfloat16"), str(tmp_path / "trainer.py"))
    assert conversion.refused == ()
    assert "first, second = self.qf(x).float(), self.target(x)" in conversion.text
