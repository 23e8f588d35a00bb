"""Repairs that would be wrong are not offered."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from amplint.findings import Finding
from tests.linting import findings_of

RULES = tuple(load_registry().rules.values())
PARTS = """
from torch import nn, optim
from accelerate import Accelerator

def fit(loader, a, b):
    accelerator = Accelerator(mixed_precision="fp16")
    optimizer = optim.AdamW([*a.parameters(), *b.parameters()])
    a, b, optimizer, loader = accelerator.prepare(a, b, optimizer, loader)
    for x in loader:
        accelerator.backward(b(a(x)).mean())
        {clip}
        optimizer.step()
        optimizer.zero_grad()
"""
HANDED = """
import torch

def fit(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            hidden = model.encode(x)
            {loss}
            torch.autograd.backward({handed})
        optimizer.step()
"""
SCALERS = """
import torch

def fit(model, loader, optimizer, other, critic):
    scaler = torch.amp.GradScaler("cuda")
    second = torch.amp.GradScaler("cuda")
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    for x in loader:
        with torch.autocast("cuda"):
            loss, own = model(x).mean(), critic(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        {more}
        schedule.step()
"""
SHARDED = """
from torch import nn, optim
from torch.distributed.fsdp import FullyShardedDataParallel

def fit(model, loader, sharded):
    {condition}model = FullyShardedDataParallel(model)
    optimizer = optim.AdamW(model.parameters())
    for x in loader:
        model(x).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
"""
SHARDED_ELSEWHERE = """
from torch import nn, optim
from torch.distributed.fsdp import FullyShardedDataParallel

def shard(model):
    return FullyShardedDataParallel(model)

def fit(model, loader, sharded):
    {condition}model = shard(model)
    optimizer = optim.AdamW(model.parameters())
    for x in loader:
        model(x).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

def main(model, loader, sharded):
    if loader:
        fit(model, loader, sharded)
"""
ASKED = """
import torch
import torch.nn.functional as F

def attend(scores):
    with torch.autocast("cuda", enabled=False):
        return F.softmax(scores.half(), dim=-1)
"""
EPOCH = """
import torch

def epoch(model, loader, criterion, optimizer=None, scaler=None, mixed=False):
    training = optimizer is not None
    model.train(training)
    for x, y in loader:
        if training:
            optimizer.zero_grad()
            with torch.autocast({region}):
                loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            with torch.inference_mode():
                loss = criterion(model(x), y)

def main(loader, valid, criterion, options):
    model = torch.nn.Linear(10, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    epoch(model, loader, criterion, optimizer, scaler, options.mixed)
    epoch(model, valid, criterion{given})
"""
CLIPPED = """
from torch import nn, optim

def fit(model, loader, clip, steps):
    optimizer = optim.SGD(model.parameters(), 0.1)
    for i, x in enumerate(loader):
        loss = model(x).mean() / steps
        {clipped}
        if (i + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
ALONE = """loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)"""
BESIDE = """if clip:
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        else:
            loss.backward()"""
REDUCED = """
from torch import nn, optim

def fit(model, loader, steps, rank):
    model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = optim.SGD(model.parameters(), 0.1)
    for epoch in range(3):
        for i, x in enumerate(loader):
            loss = model(x).mean() / steps
            loss.backward()
            if (i + 1) % steps == 0:
                optimizer.step()
                optimizer.zero_grad()
        {behind}
"""
SEGMENT = """
from torch.utils.checkpoint import checkpoint

def wrapped(module):
    def run(*inputs):
        return module(*inputs)
    return run

def plain(x, mode):
    return x * mode

def fit(module, x):
    return checkpoint({segment}, x, mode=2)
"""
DISTANCES = """
import torch

def cost(a, b):
    a = a.to(torch.float16)
    b = b.to(torch.float16)
    return torch.cdist(a.reshape(-1, 3), b.reshape(-1, 3), p=2)
"""


def lint(code: str, program: str) -> list[Finding]:
    """What one rule finds."""
    findings = findings_of(program, RULES)
    return [finding for finding in findings if finding.code == code]


@pytest.mark.parametrize(
    ("code", "program", "repaired"),
    [
        ("AMP705", PARTS.format(clip="nn.utils.clip_grad_norm_(a.parameters(), 1.0)"), True),
        ("AMP705", PARTS.format(clip="for m in (a, b): nn.utils.clip_grad_norm_(m.parameters(), 1.0)"), False),
        ("AMP101", HANDED.format(loss="loss = criterion(model(hidden), y)", handed="loss"), True),
        ("AMP101", HANDED.format(loss="pass", handed="criterion(model(hidden), y)"), False),
        ("AMP212", SCALERS.format(more="pass"), True),
        (
            "AMP212",
            SCALERS.format(more="second.scale(own).backward(); second.step(other); second.update()"),
            False,
        ),
        ("AMP111", EPOCH.format(region='"cuda", enabled=scaler is not None', given=""), False),
        ("AMP111", EPOCH.format(region='"cuda", enabled=mixed', given=""), False),
        ("AMP111", EPOCH.format(region='"cuda", enabled=mixed', given=", mixed=options.mixed"), True),
        ("AMP111", EPOCH.format(region='"cuda"', given=""), True),
        ("AMP111", EPOCH.format(region="enabled=True", given=""), False),
        ("AMP301", CLIPPED.format(clipped=ALONE), True),
        ("AMP301", CLIPPED.format(clipped=BESIDE), False),
        ("AMP306", REDUCED.format(behind="print(epoch)"), True),
        ("AMP306", REDUCED.format(behind="optimizer.step()"), False),
        ("AMP603", SEGMENT.format(segment="plain"), True),
        ("AMP603", SEGMENT.format(segment="module"), False),
        ("AMP603", SEGMENT.format(segment="wrapped(module)"), False),
        ("AMP712", SHARDED.format(condition=""), True),
        ("AMP712", SHARDED.format(condition="if sharded: "), False),
        ("AMP712", SHARDED_ELSEWHERE.format(condition=""), True),
        ("AMP712", SHARDED_ELSEWHERE.format(condition="if sharded: "), False),
    ],
)
def test_a_repair_needs_evidence(code: str, program: str, repaired: bool) -> None:
    (finding,) = lint(code, program)
    assert (finding.fix is not None) == repaired


def test_half_that_a_disabled_region_asks_for_is_meant() -> None:
    assert lint("AMP104", ASKED) == []


def test_both_operands_are_converted() -> None:
    (finding,) = lint("AMP503", DISTANCES)
    assert finding.fix is not None
    assert len(finding.fix.edits) == 2
