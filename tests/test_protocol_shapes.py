"""One mistake in all its common forms, and the repaired program, without a finding."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = tuple(load_registry().rules.values())
HEAD = "import torch\nfrom torch import nn\n"
TICKS = """
class Every:
    def __init__(self, number):
        self.number = number
        self.count = 0

    def tick(self):
        self.count += 1
        if self.count >= self.number:
            self.count = 0
            return True
        return False

def train(model, optimizer, loader):
    scaler, every = torch.amp.GradScaler("cuda"), Every(4)
    for inputs, targets in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(inputs), targets){share}
        scaler.scale(loss).backward()
        if every.tick():
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
CONDITIONAL_SHARDS = """
from torch.distributed.fsdp import FullyShardedDataParallel

def train(model, settings, loader):
    model = FullyShardedDataParallel(model, use_orig_params=True) if settings.sharded else model
    optimizer = torch.optim.AdamW(model.parameters())
    for inputs in loader:
        model(inputs).sum().backward()
        {clip}
        optimizer.step()
        optimizer.zero_grad()
"""
PLAIN_CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)"
HIDDEN_CONFIG = """
import deepspeed

def train(settings, loader):
    engine, *_ = deepspeed.initialize(args=settings, model=nn.Linear(4, 1))
    for inputs in loader:
        with {region}:
            loss = engine(inputs)
        engine.backward(loss)
        engine.step()
"""
REGION = 'torch.autocast("cuda", dtype=torch.bfloat16)'
GOT = """
def train(model, optimizer, loader, settings):
    region = {{"float16": torch.float16, "bfloat16": torch.bfloat16}}.get(settings.precision)
    for inputs, targets in loader:
        with torch.autocast("cuda", dtype=region, enabled=bool(region)):
            loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        {backward}
"""
SCALED = """torch.amp.GradScaler("cuda", enabled=region == torch.float16).scale(loss).backward()"""
PASSES = """
class Product:
    def forward_of(self, first, second):
        return torch.mm(first, second)

    def backward_of(self, gradient, second):
        return torch.mm(gradient, second.t())

class Function(torch.autograd.Function):
    @staticmethod
    {forward}
    def forward(ctx, first, second):
        ctx.product = Product()
        ctx.save_for_backward(second)
        return ctx.product.forward_of(first, second)

    @staticmethod
    {backward}
    def backward(ctx, gradient):
        (second,) = ctx.saved_tensors
        return ctx.product.backward_of(gradient, second), None
"""
WRITTEN_CONSTRUCTOR = """
from {module} import {decorator}

@{decorator}
class Trainer:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    mixed: bool = False
    scaler: torch.amp.GradScaler | None = None

    def {behind}(self):
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.mixed)

    def optimize(self, loss):
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        {{calls}}
"""
DATACLASS = WRITTEN_CONSTRUCTOR.format(module="dataclasses", decorator="dataclass", behind="__post_init__")
ATTRS = WRITTEN_CONSTRUCTOR.format(module="attrs", decorator="define", behind="__attrs_post_init__")
STEP_AND_UPDATE = "self.scaler.step(self.optimizer)\n        self.scaler.update()"
UNSCALE = "self.scaler.unscale_(self.optimizer)"
HANDED = """
import tools

def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for inputs in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(inputs).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        tools.{name}(scaler, optimizer)
"""
CASES = {
    "a counter in an object": ("AMP302", TICKS.format(share=""), TICKS.format(share=" / 4")),
    "shards by a condition": (
        "AMP712",
        CONDITIONAL_SHARDS.format(clip=PLAIN_CLIP),
        CONDITIONAL_SHARDS.format(clip="model.clip_grad_norm_(settings.clip) if settings.sharded else None"),
    ),
    "a configuration out of sight": (
        "AMP721",
        HIDDEN_CONFIG.format(region=REGION),
        HIDDEN_CONFIG.format(region="torch.enable_grad()"),
    ),
    "what a dictionary gets": (
        "AMP208",
        GOT.format(backward="loss.backward()\n        optimizer.step()"),
        GOT.format(backward=SCALED),
    ),
    "a constructor that dataclass writes": (
        "AMP201",
        DATACLASS.format(calls=f"{UNSCALE}\n        {UNSCALE}\n        {STEP_AND_UPDATE}"),
        DATACLASS.format(calls=f"{UNSCALE}\n        {STEP_AND_UPDATE}"),
    ),
    "a constructor that attrs writes": (
        "AMP201",
        ATTRS.format(calls=f"{UNSCALE}\n        {UNSCALE}\n        {STEP_AND_UPDATE}"),
        ATTRS.format(calls=f"{UNSCALE}\n        {STEP_AND_UPDATE}"),
    ),
    "a function that saves, and one that may step too": (
        "AMP203",
        HANDED.format(name="log_state"),
        HANDED.format(name="step_and_log_state"),
    ),
    "methods of an object in both passes": (
        "AMP601",
        PASSES.format(forward="", backward=""),
        PASSES.format(
            forward='@torch.amp.custom_fwd(device_type="cuda")', backward='@torch.amp.custom_bwd(device_type="cuda")'
        ),
    ),
}


def codes(code: str, program: str) -> set[str]:
    """The codes of the findings if one rule is selected."""
    job = Job("program.py", "", (HEAD + program).encode(), RULES, asked=frozenset({code}))
    return {finding.code for finding in analyse(job, Modules()).findings}


@pytest.mark.parametrize(("code", "bad", "good"), CASES.values(), ids=list(CASES))
def test_the_mistake_is_found_and_the_repair_is_not(code: str, bad: str, good: str) -> None:
    assert code in codes(code, bad)
    assert code not in codes(code, good)


def test_a_norm_is_compared_with_a_number_of_any_spelling() -> None:
    program = """
def train(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for inputs in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(inputs).mean()
        scaler.scale(loss).backward()
        norm = torch.norm(model.weight.grad)
        if norm {compared}:
            model.weight.data.add_(model.weight.grad / norm)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
    assert "AMP205" in codes("AMP205", program.format(compared="> 0x10"))
    assert "AMP205" not in codes("AMP205", program.format(compared="!= 0x0"))
