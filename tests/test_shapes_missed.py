"""Mistakes in shapes that were once missed, each beside the correct code that it must not be confused with."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = load_registry().rules
BASE = """
import torch

class Base:
    def __init__(self, modules, optimizer, use_amp):
        self.modules, self.optimizer, self.use_amp = modules, optimizer, use_amp
        self.scaler = torch.amp.GradScaler("cuda", enabled=use_amp)

    def compute_forward(self, batch):
        raise NotImplementedError

    def fit_batch(self, batch):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", enabled=self.use_amp):
            loss = self.compute_forward(batch).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def evaluate_batch(self, batch):
        {region}
            return self.compute_forward(batch)

    def fit(self, loader, valid):
        for batch in loader:
            self.modules.train()
            self.fit_batch(batch)
        self.modules.eval()
        with torch.no_grad():
            for batch in valid:
                self.evaluate_batch(batch)
"""
LOOP = """
import torch

def train(model, optimizer, loader, epochs, n):
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        {before}
        for step, (x, y) in enumerate(loader):
            {first}
            with torch.autocast("cuda"):
                loss = model(x, y) / n
            scaler.scale(loss).backward()
            if (step + 1) % n == 0:
                scaler.step(optimizer)
                scaler.update()
                {after}
"""
CONFIGURED = """
import torch

class Updater:
    def __init__(self, config, network):
        self.network = network
        self.clip = config.{read}("clip", 0.0)
        if config.{read}("norm", 0.0):
            raise ValueError("norm")

    def step(self, optimizer, scaler=None):
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
"""
SWITCHED = """
import torch

class Agent:
    def __init__(self, model, optimizer, config):
        self.model, self.optimizer = model, optimizer
        self.mixed = config.get("mixed_precision", False)
        self.scaler = torch.amp.GradScaler("cuda"{enabled})

    def update(self, batch):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", enabled={flag}):
            loss = self.model(batch).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
DIFFUSION = """
import torch
from torch import nn

class Denoiser(nn.Module):
    def forward(self, x, t):
        bf16 = x.dtype == torch.bfloat16
        t = t.{cast}
        return self.{embedding}(t)
"""
SOFTMAX = """
import torch
import torch.nn.functional as F

def score(model, inputs):
    half = torch.float16
    return F.log_softmax(model(inputs), dim=-1, dtype={dtype})
"""
LISTED = """
import torch

class Model:
    def __init__(self, net):
        self.net, self.optimizers = net, []
        self.optimizer = torch.optim.Adam(net.parameters())
        self.optimizers.append(self.optimizer)
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, x):
        self.optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = self.net(x).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def save(self, path):
        state = {"optimizers": [], "scaler": __SCALER__}
        for one in self.optimizers:
            state["optimizers"].append(one.state_dict())
        torch.save(state, path)
"""
HOOK = """
import torch
import lightning as L

class Net(L.LightningModule):
    def training_step(self, batch, index):
        return self(batch).mean()

    def {hook}:
        for name, parameter in self.named_parameters():
            self.log(name, parameter.grad.norm())

L.Trainer(precision="{precision}").fit(Net(), None)
"""
DROPPING = """
import torch
from torch.utils.data import DataLoader

def train(model, optimizer, data, n):
    loader = DataLoader(data, batch_size=4, drop_last=True)
    for epoch in range(3):
        optimizer.zero_grad()
        for step, (x, y) in enumerate(loader):
            (torch.nn.functional.mse_loss(model(x), y) / n).backward()
            if {condition}:
                optimizer.step()
                optimizer.zero_grad()
"""
BRANCHES = """
import torch

class Trainer:
    def __init__(self, model, optimizer, n, fp16):
        self.model, self.optimizer, self.n, self.fp16 = model, optimizer, n, fp16
        self.scaler = torch.amp.GradScaler("cuda", enabled=fp16)

    def train(self, loader):
        self.optimizer.zero_grad()
        for step, (x, y) in enumerate(loader):
            if {test}:
                with torch.autocast("cuda"):
                    loss = torch.nn.functional.cross_entropy(self.model(x), y)
                self.scaler.scale({scaled}).backward()
            else:
                loss = torch.nn.functional.cross_entropy(self.model(x), y) / self.n
                loss.backward()
            if (step + 1) % self.n == 0:
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
"""
OFF, ON = "if True:", 'with torch.autocast("cuda", enabled=self.use_amp):'
CLEARS = "optimizer.zero_grad()"
FIRST = "if step == 0:\n                optimizer.zero_grad()"
PROGRAMS = [
    ("AMP111", BASE.format(region=OFF), 1),
    ("AMP111", BASE.format(region=ON), 0),
    ("AMP304", LOOP.format(before=CLEARS, first="pass", after="pass"), 1),
    ("AMP304", LOOP.format(before=CLEARS, first=FIRST, after="pass"), 1),
    ("AMP304", LOOP.format(before=CLEARS, first="pass", after=CLEARS), 0),
    (
        "AMP304",
        LOOP.format(before="pass", first="if step % n == 0:\n                optimizer.zero_grad()", after="pass"),
        0,
    ),
    ("AMP205", CONFIGURED.format(read="float"), 1),
    ("AMP205", CONFIGURED.format(read="get"), 1),
    ("AMP209", SWITCHED.format(enabled="", flag="self.mixed"), 1),
    ("AMP209", SWITCHED.format(enabled=", enabled=self.mixed", flag="self.mixed"), 0),
    ("AMP209", SWITCHED.format(enabled="", flag="torch.cuda.is_available()"), 0),
    ("AMP406", DIFFUSION.format(cast="to(x.dtype)", embedding="t_embedder"), 1),
    ("AMP406", DIFFUSION.format(cast="to(x.device)", embedding="t_embedder"), 0),
    ("AMP406", DIFFUSION.format(cast="to(x.dtype)", embedding="tower"), 0),
    ("AMP211", LISTED.replace("__SCALER__", "None"), 1),
    ("AMP211", LISTED.replace("__SCALER__", "self.scaler.state_dict()"), 0),
    ("AMP743", HOOK.format(hook="on_after_backward(self)", precision="16-mixed"), 1),
    ("AMP743", HOOK.format(hook="on_after_backward(self)", precision="bf16-mixed"), 0),
    ("AMP743", HOOK.format(hook="on_before_optimizer_step(self, optimizer)", precision="16-mixed"), 0),
    ("AMP303", DROPPING.format(condition="(step + 1) % n == 0"), 1),
    ("AMP303", DROPPING.format(condition="(step + 1) % n == 0 or step + 1 == len(loader)"), 0),
    ("AMP302", BRANCHES.format(test="self.fp16", scaled="loss"), 1),
    ("AMP302", BRANCHES.format(test="self.fp16", scaled="loss / self.n"), 0),
    ("AMP302", BRANCHES.format(test="self.n == 1", scaled="loss"), 0),
    ("AMP408", SOFTMAX.format(dtype="torch.float16"), 1),
    ("AMP408", SOFTMAX.format(dtype="torch.float32"), 0),
]


def told(code: str, program: str, path: str = "") -> int:
    """The number of findings of a rule, selected by its code, in a program."""
    job = Job("program.py", path, program.encode(), tuple(RULES.values()), asked=frozenset(RULES))
    return sum(one.code == code for one in analyse(job, Modules()).findings)


@pytest.mark.parametrize(("code", "program", "expected"), PROGRAMS)
def test_a_shape_is_told_from_its_neighbour(code: str, program: str, expected: int) -> None:
    assert told(code, program) == expected


@pytest.mark.parametrize(
    ("evaluated", "trained", "expected"),
    [
        ("torch.float16", ["dtype=torch.bfloat16"], 1),
        ("torch.bfloat16", ["dtype=torch.bfloat16"], 0),
        ("torch.bfloat16", [""], 1),
        ("torch.float16", ["dtype=torch.bfloat16", "dtype=torch.float16"], 0),
        ("torch.float16", ["dtype=torch.bfloat16", "dtype=args.dtype"], 0),
    ],
)
def test_evaluations_are_compared_with_training_in_other_files(
    tmp_path: Path, evaluated: str, trained: list[str], expected: int
) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    for number, dtype in enumerate(trained):
        text = f'with torch.autocast("cuda", {dtype}):\n    loss = model(x)\nloss.backward()\n'
        (tmp_path / f"train_{number}.py").write_text(text)
    script = tmp_path / "evaluation.py"
    program = f"""
import torch

@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    for x in loader:
        with torch.autocast("cuda", dtype={evaluated}):
            model(x)
    model.train()
"""
    script.write_text(program)
    assert told("AMP111", program, str(script)) == expected
