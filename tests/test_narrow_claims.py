"""Claims about keywords of segments, windows of one micro-batch, single timesteps and buffers that are not there."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding

RULES = tuple(load_registry().rules.values())


def told(text: str, code: str) -> list[Finding]:
    """What a rule finds in a program."""
    job = Job("script.py", "/nowhere/script.py", text.encode(), RULES)
    return [one for one in analyse(job, Modules()).findings if one.code == code]


SEGMENT = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from blocks import Other


class Block(nn.Module):
    def forward(self, x, mask=None, **more):
        return x


class Plain(nn.Module):
    def forward(self, x, masks=None):
        return x


def segment(x, mask):
    return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.plain, self.other = Block(), Plain(), Other()
        self.layers = nn.ModuleList([Other()])

    def own(self, x, mask):
        return x

    def forward(self, x, mask):
        for layer in self.layers:
            x = checkpoint({segment}, x, mask=mask)
        return x
"""


@pytest.mark.parametrize(
    ("segment", "fixed", "advice"),
    [
        ("self.block", True, "Pass use_reentrant=False."),
        ("segment", True, "Pass use_reentrant=False."),
        ("self.own", True, "Pass use_reentrant=False."),
        ("self.plain", False, "Pass use_reentrant=False, and let the segment take mask."),
        ("layer", False, "Pass use_reentrant=False, and let the segment take mask."),
        ("layer.__call__", False, "Pass use_reentrant=False, and let the segment take mask."),
        ("self.other", False, "Pass use_reentrant=False, and let the segment take mask."),
    ],
)
def test_keywords_of_segments(segment: str, fixed: bool, advice: str) -> None:
    (found,) = told(SEGMENT.format(segment=segment), "AMP603")
    assert (found.fix is not None, found.advice) == (fixed, advice)


ENGINE = """
import deepspeed
from settings import settings_for


def train(net, loader, args):
    config = settings_for(args)
    config["gradient_accumulation_steps"] = {number}
    engine, optimizer, _, _ = deepspeed.initialize(model=net, config=config)
    for x, y in loader:
        loss = engine(x, y)
        engine.backward(loss)
        optimizer.step()
"""


@pytest.mark.parametrize(("number", "tells"), [("1", False), ("4", True), ("args.steps", True)])
def test_windows_of_one_micro_batch(number: str, tells: bool) -> None:
    assert bool(told(ENGINE.format(number=number), "AMP725")) is tells


TIMESTEPS = """
import torch


def step(scheduler, net, x):
    timestep = {taken}.to(x.device, dtype=torch.bfloat16)
    return net(x, timestep)
"""


@pytest.mark.parametrize(
    ("taken", "tells"),
    [
        ("scheduler.timesteps[0].repeat(x.shape[0])", False),
        ("scheduler.timesteps[-1]", False),
        ("scheduler.timesteps[torch.randint(0, 1000, (x.shape[0],))]", True),
        ("scheduler.timesteps[:4]", True),
        ("scheduler.timesteps", True),
    ],
)
def test_single_timesteps(taken: str, tells: bool) -> None:
    assert bool(told(TIMESTEPS.format(taken=taken), "AMP406")) is tells


EMBEDDED = """
import math
import torch
from torch import nn

def waves(timesteps, dim):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2, dtype=torch.float32) / (dim // 2))
    args = timesteps[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.time_embed = nn.Linear(32, 32)

    def forward(self, x, timesteps):
        t_emb = {made}
        t_emb = t_emb.to(torch.bfloat16)
        return self.time_embed(t_emb)
"""


@pytest.mark.parametrize(("made", "tells"), [("waves(timesteps, 32)", False), ("timesteps", True)])
def test_timesteps_that_are_embedded_before(made: str, tells: bool) -> None:
    assert bool(told(EMBEDDED.format(made=made), "AMP406")) is tells


SHARDED = """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        {part}

    def forward(self, x):
        return self.layer(x)


def main():
    half = torch.bfloat16
    policy = MixedPrecision(param_dtype=half, reduce_dtype=half, buffer_dtype=half)
    return FullyShardedDataParallel({net}, mixed_precision=policy)
"""


@pytest.mark.parametrize(
    ("part", "net", "tells"),
    [
        ("self.embed = nn.Embedding(8, 8)", "Net()", False),
        ("self.norm = nn.BatchNorm1d(8)", "Net()", True),
        ("self.register_buffer('angles', torch.arange(8.0))", "Net()", True),
        ("pass", "AutoModel.from_pretrained('gpt2')", True),
    ],
)
def test_buffers_that_are_not_there(part: str, net: str, tells: bool) -> None:
    assert bool(told(SHARDED.format(part=part, net=net), "AMP714")) is tells


INNER = """
import torch


def tune(head, features, target, steps):
    inner = torch.optim.SGD(head.parameters(), lr=0.1)
    for _ in range(steps):
        loss = (head(features) - target).square().mean()
        inner.zero_grad()
        loss.backward()
        {inner}


def train(net, head, loader):
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        tune(head, x, y, 5)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x, y)
        {own}
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("inner", "own", "tells"),
    [
        ("inner.step()", "scaler.scale(loss).backward()", False),
        ("inner.step()", "loss.backward()", True),
        ("pass", "scaler.scale(loss).backward()", True),
    ],
)
def test_passes_of_another_optimizer(inner: str, own: str, tells: bool) -> None:
    assert bool(told(INNER.format(inner=inner, own=own), "AMP207")) is tells


CLIPPED = """
import torch


def train(net, loader, steps):
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x, y) / steps
        scaler.scale(loss).backward()
        try:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        except RuntimeError:
            print("no clip")
        if {test}:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("test", "advice"),
    [
        ("(i + 1) % steps == 0 or i + 1 == len(loader)", "Clip where the window is full, behind scaler.unscale_"),
        ("loss < 100", "Call scaler.unscale_(optimizer) first"),
    ],
)  # fmt: skip
def test_advice_for_clips_within_windows(test: str, advice: str) -> None:
    (found,) = told(CLIPPED.format(test=test), "AMP205")
    assert found.advice.startswith(advice)


FSDP = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel


def main(net, loader, backend, size):
    {start}
    {wrap}
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
START, CHOSEN = "torch.distributed.init_process_group('nccl')", "if backend == 'fsdp':\n        {}"
WRAP = "net = FullyShardedDataParallel(net)"


@pytest.mark.parametrize(
    ("start", "wrap", "fixed"),
    [
        ("pass", WRAP, True),
        ("pass", f"{WRAP} if backend == 'fsdp' else net", False),
        ("pass", CHOSEN.format(WRAP), False),
        (START, CHOSEN.format(WRAP), True),
        (f"if size > 1:\n        {START}", CHOSEN.format(WRAP), False),
    ],
)
def test_scalers_of_models_that_need_not_be_sharded(start: str, wrap: str, fixed: bool) -> None:
    found = told(FSDP.format(start=start, wrap=wrap), "AMP216")
    assert [one.fix is not None for one in found] == [fixed]


LOADED = """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

dtype = torch.bfloat16 if {asked} else torch.float16
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=dtype)
Trainer(model=model, args=TrainingArguments(output_dir="out", bf16=True)).train()
"""


@pytest.mark.parametrize(
    ("asked", "tells"), [("torch.cuda.is_bf16_supported()", False), ("torch.cuda.device_count() > 1", True)]
)
def test_half_dtypes_that_the_device_decides(asked: str, tells: bool) -> None:
    assert bool(told(LOADED.format(asked=asked), "AMP745")) is tells


EVALUATED = """
import torch


def train(net, head, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            parts = [net(one) for one in x]
            loss = head(torch.stack(parts).mean(0), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@torch.no_grad()
def evaluate(net, head, loader):
    for x, y in loader:
        parts = []
        for one in x:
            part = net(one)
            parts.append(part)
        {used}


def main(net, head, loader):
    optimizer = torch.optim.Adam(net.parameters())
    train(net, head, loader, optimizer)
    net.eval()
    evaluate(net, head, loader)
"""


@pytest.mark.parametrize(("used", "fixed"), [("print(parts)", True), ("print(head(sum(parts), y))", False)])
def test_regions_around_what_is_collected(used: str, fixed: bool) -> None:
    found = told(EVALUATED.format(used=used), "AMP111")
    assert [one.fix is not None for one in found if "net" in one.message] == [fixed]


SAVED = """
import torch


def resume(path, net, optimizer=None, strict=True):
    state = torch.load(path)
    net.load_state_dict(state["net"], strict=strict)
    if optimizer:
        optimizer.load_state_dict(state["optimizer"])


def train(net, loader, path):
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    resume(path, net{given})
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    torch.save({{"net": net.state_dict(), "optimizer": optimizer.state_dict()}}, path)
"""


@pytest.mark.parametrize(
    ("given", "tells"),
    [
        (", strict=False", False),
        (", optimizer", True),
        (", optimizer=optimizer", True),
        (", strict=False, optimizer=optimizer", True),
    ],
)
def test_optimizers_that_nothing_restores(given: str, tells: bool) -> None:
    assert bool(told(SAVED.format(given=given), "AMP211")) is tells


LAST = """
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from tqdm import tqdm


def train(model, ema, loss_fn, dataset, device, accumulation_steps=4, max_train_steps=None, epochs=3, tag=None):
    train_loader = DataLoader(dataset, batch_size=4, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(1, epochs + 1):
        optimizer.zero_grad()
        pbar = tqdm(train_loader, leave=False)
        for step, batch in enumerate(pbar):
            if max_train_steps and step >= max_train_steps:
                break
            noise = batch["noise"].to(device) if "noise" in batch else None
            charging = batch.get("charging", None)
            if charging is not None:
                charging = charging.float().to(device)
            with torch.amp.autocast("cuda"):
                losses = loss_fn(model(batch["degraded"].to(device)), noise, charging)
                loss = losses["total"] / accumulation_steps
            scaler.scale(loss).backward()
            steps = min(max_train_steps, len(train_loader)) if max_train_steps else len(train_loader)
            if (step + 1) % accumulation_steps == 0 or (step + 1) == steps:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                ema.update(model)
"""


def test_windows_that_another_condition_ends_as_well() -> None:
    assert told(LAST, "AMP303") == []
    alone = LAST.replace(" or (step + 1) == steps:", ":")
    assert len(told(alone, "AMP303")) == 1
