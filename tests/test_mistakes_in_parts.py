"""Mistakes of which each function, or each file, shows a part."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from tests.linting import findings_of

RULES = load_registry().rules


def told(folder: Path, text: str, **others: str) -> list[tuple[int, str]]:
    """The rows and codes of what the default rules report of a program beside other files, but for infos."""
    for name, other in others.items():
        (folder / f"{name}.py").write_text(other)
    path, raw = folder / "program.py", text.encode()
    path.write_bytes(raw)
    rules = screen([rule for rule in RULES.values() if rule.default], raw, frozenset())
    found = findings_of(raw, rules, path=str(path))
    return [(one.span.start.row, one.code) for one in found if one.severity.name != "INFO"]


STEP = """
import torch

class Stepper:
    def __init__(self, model, optimizer, scaler: torch.amp.GradScaler):
        self.model, self.optimizer, self.scaler = model, optimizer, scaler

    def step(self, limit):
        self.scaler.unscale_(self.optimizer)
        {first}
        {second}
        {third}
"""
CLIP = "torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)"
TAKE, UPDATE = "self.scaler.step(self.optimizer)", "self.scaler.update()"


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ((CLIP, TAKE, UPDATE), []),
        ((TAKE, CLIP, UPDATE), [(11, "AMP202")]),
        ((CLIP, "self.optimizer.step()", UPDATE), [(11, "AMP206")]),
        ((CLIP, UPDATE, TAKE), [(11, "AMP215")]),
    ],
)
def test_gradients_that_another_method_computes(
    tmp_path: Path, statements: tuple[str, str, str], expected: list[tuple[int, str]]
) -> None:
    first, second, third = statements
    assert told(tmp_path, STEP.format(first=first, second=second, third=third)) == expected


def test_a_scaled_loss_is_read_through_a_helper(tmp_path: Path) -> None:
    text = """
import torch
from helpers import reduced

def train(model, batches, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x).mean()
        {scaled}
        scaler.step(optimizer)
        scaler.update()
        loss = reduced(loss)
        print("loss", loss.item())
"""
    helpers = """
import torch.distributed as dist

def reduced(tensor):
    copy = tensor.clone()
    dist.all_reduce(copy)
    copy /= dist.get_world_size()
    return copy
"""
    assert told(tmp_path, text.format(scaled="scaler.scale(loss).backward()"), helpers=helpers) == []
    rebound = text.format(scaled="loss = scaler.scale(loss); loss.backward()")
    assert told(tmp_path, rebound, helpers=helpers) == [(15, "AMP222")]


def test_a_scale_read_before_unscaling_tells_of_no_skipped_step(tmp_path: Path) -> None:
    text = """
import torch

def train(model, batches, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:
        if scaler.get_scale() < 1:
            scaler.update(1.0)
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scaler.update()
"""
    assert told(tmp_path, text) == [(15, "AMP206")]


FLAGS = """
import torch
{imported}

def train(model, batches, optimizer, args):
    scaler = {scaler}
    for x in batches:
        if args.debug:
            break
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def main(model, batches, optimizer, args):
    if args.evaluate:
        model.eval()
    else:
        train(model, batches, optimizer, args)
"""
MADE = 'torch.amp.GradScaler("cuda", enabled=args.use_amp)'


def test_settings_about_other_matters_lead_to_no_region(tmp_path: Path) -> None:
    assert told(tmp_path, FLAGS.format(imported="", scaler=MADE)) == [(6, "AMP220")]


def test_a_scaler_made_in_another_file_is_reported_where_it_is_used(tmp_path: Path) -> None:
    text = FLAGS.format(imported="from setup import make", scaler="make(args)")
    setup = f"import torch\n\ndef make(args):\n    return {MADE}\n"
    assert told(tmp_path, text, setup=setup) == [(13, "AMP220")]


UNCLEARED = """
import torch
from precision import Precision, warm_up

class Trainer:
    def __init__(self, model, limit):
        self.model, self.precision = model, Precision()
        self.optimizer = torch.optim.AdamW(model.parameters())

    def fit(self, batches):
        for x in batches:
            {clear}
            with self.precision.autocast():
                loss = self.model(x).mean()
            self.precision.scaled(loss).backward()
            self.precision.step(self.optimizer)
"""
PRECISION = """
import torch

class Precision:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def autocast(self):
        return torch.autocast("cuda")

    def scaled(self, loss):
        return self.scaler.scale(loss)

    def step(self, optimizer):
        self.scaler.step(optimizer)
        self.scaler.update()

def warm_up(optimizer):
    optimizer.zero_grad()
"""


def test_what_nothing_calls_clears_no_gradients(tmp_path: Path) -> None:
    assert told(tmp_path, UNCLEARED.format(clear="self.optimizer.zero_grad()"), precision=PRECISION) == []
    assert told(tmp_path, UNCLEARED.format(clear="warm_up(self.optimizer)"), precision=PRECISION) == []
    unused = UNCLEARED.replace(", warm_up", "").format(clear="pass")
    assert told(tmp_path, unused, precision=PRECISION) == [(15, "AMP304")]


def test_a_model_runs_outside_of_its_region_beside_one_that_runs_in_its_own(tmp_path: Path) -> None:
    text = """
import torch

def train(model, batches, optimizer, criterion):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches:
        optimizer.zero_grad()
        outputs = model(x)
        with torch.autocast("cuda"):
            loss = criterion(outputs, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def train_head(head, batches, optimizer, criterion):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(head(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
    assert told(tmp_path, text) == [(8, "AMP108")]
