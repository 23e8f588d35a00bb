"""Repairs of protocols beside a choice between scaled and plain work, and of calls that only run on some paths."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from amplint.findings import Finding
from tests.linting import findings_of

RULES = tuple(load_registry().rules.values())
CHOSEN_STEP = """
import torch

class Trainer:
    def __init__(self, model, amp):
        self.model, self.amp = model, amp
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda") if amp else None

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=self.amp):
                loss = self.model(x, y)
            loss.backward()
            if self.amp:
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.optimizer.step()
"""
CHOSEN_PASS = """
import torch

def fit(model, loader, args):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda") if args.amp else None
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            loss = model(x, y)
        if {condition}:
            {first}
        else:
            {second}
        optimizer.step()
"""
SCALED, PLAIN = "scaler.scale(loss).backward()", "loss.backward()"
LOST = """
import torch

class Trainer:
    def __init__(self, model, amp):
        self.model, self.amp = model, amp
        self.optimizer = torch.optim.AdamW(model.parameters())
        {made}

    def resume(self, path):
        self.optimizer.load_state_dict(torch.load(path)["optimizer"])

    def save(self, path):
        torch.save({{"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}}, path)

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            if self.amp:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.model(x, y)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                loss = self.model(x, y)
                loss.backward()
                self.optimizer.step()
        self.save("last.pth")
"""
UNSCALED = """
import torch

def fit(model, loader, args):
    optimizer = torch.optim.AdamW(model.parameters())
    model.cuda()
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x, y)
        loss.backward()
        {between}
        optimizer.step()
        optimizer.zero_grad()
"""
WINDOW = """
from contextlib import nullcontext
import torch

def fit(model, optimizer, loader, k, distributed):
    for i, (x, y) in enumerate(loader):
        context = {context}
        with context():
            loss = model(x, y) / k
            loss.backward()
        if i % k == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
SEGMENT = """
import torch
from torch import nn
import torch.utils.checkpoint

class Block(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers
        self.gradient_checkpointing = False

    def forward(self, hidden, cache=None):
        for layer in self.layers:
            if torch.is_grad_enabled() and self.gradient_checkpointing:

                def create_custom_forward(module):
                    def create_forward({taken}):
                        return module({taken})

                    return create_forward

                hidden = torch.utils.checkpoint.checkpoint(create_custom_forward(layer), hidden, cache=cache)
            else:
                hidden = layer(hidden, cache=cache)
        return hidden
"""
PACKED = """
import torch

class Packed(torch.nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.register_buffer("packed", torch.empty((rows, columns), dtype=torch.uint8))

    def weight(self, dtype):
        whole = ((self.packed >> 4) & 15).float()
        self.packed.to(dtype)
        return whole
"""


def lint(program: str, code: str) -> Finding:
    (found,) = (one for one in findings_of(program, RULES, path="/nowhere/program.py") if one.code == code)
    return found


def edited(program: str, code: str) -> list[str]:
    """The lines of what the repair of the only finding of a code writes."""
    fix = lint(program, code).fix
    return [line.strip() for edit in fix.edits for line in edit.content.splitlines() if line.strip()] if fix else []


def test_a_loss_is_scaled_where_the_scaler_steps() -> None:
    assert edited(CHOSEN_STEP, "AMP207") == [
        "if self.amp:",
        "self.scaler.scale(loss).backward()",
        "else:",
        "loss.backward()",
    ]


@pytest.mark.parametrize(
    ("condition", "first", "second", "where"),
    [("args.amp", SCALED, PLAIN, "args.amp"), ("not args.amp", PLAIN, SCALED, "args.amp")],
)
def test_a_step_goes_through_the_scaler_where_the_loss_was_scaled(
    condition: str, first: str, second: str, where: str
) -> None:
    program = CHOSEN_PASS.format(condition=condition, first=first, second=second)
    assert edited(program, "AMP206") == [
        f"if {where}:",
        "scaler.step(optimizer)",
        "scaler.update()",
        "else:",
        "optimizer.step()",
    ]


def test_a_condition_that_a_call_decides_is_not_repeated() -> None:
    assert not edited(CHOSEN_PASS.format(condition="args.uses_amp()", first=SCALED, second=PLAIN), "AMP206")


@pytest.mark.parametrize(
    ("made", "is_repaired"),
    [
        ('self.scaler = torch.amp.GradScaler("cuda")', True),
        ('self.scaler = torch.amp.GradScaler("cuda") if amp else None', True),
        ('if amp:\n            self.scaler = torch.amp.GradScaler("cuda")', False),
    ],
)
def test_the_state_of_a_scaler_that_may_not_be_there_is_not_saved(made: str, is_repaired: bool) -> None:
    assert bool(edited(LOST.format(made=made), "AMP211")) == is_repaired


@pytest.mark.parametrize(
    ("between", "unscales", "is_repaired"),
    [
        ("pass", False, True),
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", True, True),
        ("if args.norm:\n            torch.nn.utils.clip_grad_norm_(model.parameters(), args.norm)", True, True),
        ("print(model.weight.grad.norm())", False, False),
    ],
)
def test_a_scaler_is_added_with_what_unscales_for_a_clip(between: str, unscales: bool, is_repaired: bool) -> None:
    lines = edited(UNSCALED.format(between=between), "AMP208")
    assert bool(lines) == is_repaired
    assert ("scaler.unscale_(optimizer)" in lines) == unscales


@pytest.mark.parametrize(
    ("context", "is_repaired"),
    [("nullcontext", True), ("model.no_sync if distributed and i % k != 0 else nullcontext", False)],
)
def test_a_counter_that_other_conditions_ask_is_not_shifted_for_one(context: str, is_repaired: bool) -> None:
    program = WINDOW.format(context=context)
    assert bool(edited(program, "AMP305")) == is_repaired
    assert lint(program, "AMP305").span.start.row == 11


@pytest.mark.parametrize("taken", ["*inputs", "hidden"])
def test_a_segment_that_a_nested_function_makes_need_not_take_keywords(taken: str) -> None:
    found = lint(SEGMENT.format(taken=taken), "AMP603")
    assert found.fix is None
    assert "let the segment take cache" in found.advice


def test_a_buffer_is_not_replaced_by_its_conversion() -> None:
    found = lint(PACKED, "AMP506")
    assert found.fix is None
    assert "drop the statement" in found.advice
