"""The operators of `benchmarks.injected` change exactly what they say, and amplint notices it in plain scripts."""

from __future__ import annotations

import difflib
import textwrap

import pytest

from amplint.api import Settings, check
from benchmarks.injected import OPERATORS, Operator, Script, half_of, repositories

HEAD = """\
import torch
from torch import nn

def train(loader, args):
    model = nn.Linear(4, 1).cuda()
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for inputs, targets in loader:
        inputs, targets = inputs.cuda(), targets.cuda()
"""
PLAIN = """\
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            output = model(inputs)
            loss = criterion(output, targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print("loss", loss.item())
"""
STEP = """\
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            output = model(inputs)
            loss = criterion(output, targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
LOOP = HEAD + PLAIN
SIMPLE = HEAD + STEP
WINDOW = (
    HEAD.replace("for inputs, targets in loader", "for i, (inputs, targets) in enumerate(loader)")
    + """\
        with torch.autocast("cuda"):
            loss = criterion(model(inputs), targets) / args.accum
        scaler.scale(loss).backward()
        if (i + 1) % args.accum == 0 or i + 1 == len(loader):
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
)
BEFORE, FOR, ROUND = WINDOW.partition("    for i,")
EPOCHS = f"{BEFORE}    for epoch in range(3):\n        optimizer.zero_grad()\n" + textwrap.indent(FOR + ROUND, "    ")
SAVED = """\
        torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "c")
"""
RESTORED = """\
    state = torch.load("c")
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
    for inputs"""
FLAGS = SIMPLE.replace('("cuda")', '("cuda", enabled=args.amp)')
TWO = SIMPLE.replace("        scaler.step(optimizer)\n", "        scaler.step(optimizer)\n        scaler.step(other)\n")
PAIR = """\
import torch
from torch import nn

def train(loader):
    a, b = nn.Linear(4, 1).cuda(), nn.Linear(4, 1).cuda()
    first, second = torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for inputs in loader:
        first.zero_grad()
        second.zero_grad()
        with torch.autocast("cuda"):
            loss = a(inputs).mean()
        scaler.scale(loss).backward()
        scaler.step(first)
        with torch.autocast("cuda"):
            score = b(inputs).mean()
        scaler.scale(score).backward()
        scaler.unscale_(second)
        nn.utils.clip_grad_norm_(b.parameters(), 1.0)
        scaler.step(second)
        scaler.update()
"""
SCALERS = PAIR.replace("    for", '    other_scaler = torch.amp.GradScaler("cuda")\n    for')
for call in ("scale(score)", "unscale_(second)", "step(second)"):
    SCALERS = SCALERS.replace(f"scaler.{call}", f"other_scaler.{call}")
SCALERS += "        other_scaler.update()\n"
NO_SCALER = """\
import torch

def train(model, optimizer, loader):
    for inputs in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(inputs).mean()
        loss.backward()
        optimizer.step()
"""

CASES: dict[str, tuple[str, list[str], list[str]]] = {
    "backward-in-region": (LOOP, ["scaler.scale(loss).backward()"], ["scaler.scale(loss).backward()", "pass"]),
    "loss-not-scaled": (LOOP, ["scaler.scale(loss).backward()"], ["(loss).backward()"]),
    "scaled-loss-unused": (LOOP, ["scaler.scale(loss).backward()"], ["scaler.scale(loss)", "loss.backward()", "pass"]),
    "scaled-loss-read": (
        LOOP,
        ["scaler.scale(loss).backward()"],
        ["loss = scaler.scale(loss)", "loss.backward()", "pass"],
    ),
    "unscale-dropped": (LOOP, ["scaler.unscale_(optimizer)"], ["pass"]),
    "unscale-doubled": (LOOP, [], ["scaler.unscale_(optimizer)"]),
    "unscale-behind-step": (LOOP, ["scaler.unscale_(optimizer)"], ["pass", "scaler.unscale_(optimizer)"]),
    "clip-behind-step": (
        LOOP,
        ["scaler.step(optimizer)"],
        ["pass", "scaler.step(optimizer)"],
    ),
    "step-past-scaler": (LOOP, ["scaler.step(optimizer)"], ["optimizer.step()"]),
    "step-doubled": (LOOP, [], ["scaler.step(optimizer)"]),
    "update-dropped": (LOOP, ["scaler.update()"], ["pass"]),
    "update-doubled": (LOOP, [], ["scaler.update()"]),
    "update-before-step": (LOOP, ["scaler.update()"], ["scaler.update()", "pass"]),
    "update-between-steps": (TWO, [], ["scaler.update()"]),
    "never-cleared": (LOOP, ["optimizer.zero_grad()"], ["pass"]),
    "cleared-before-step": (LOOP, ["optimizer.zero_grad()"], ["pass", "optimizer.zero_grad()"]),
    "cleared-in-window": (WINDOW, ["optimizer.zero_grad()"], ["pass", "optimizer.zero_grad()"]),
    "unscale-in-window": (WINDOW, ["scaler.unscale_(optimizer)"], ["scaler.unscale_(optimizer)", "pass"]),
    "update-in-window": (WINDOW, ["scaler.update()"], ["pass", "scaler.update()"]),
    "division-dropped": (
        WINDOW,
        ["loss = criterion(model(inputs), targets) / args.accum"],
        ["loss = criterion(model(inputs), targets)"],
    ),
    "window-off-by-one": (
        WINDOW,
        ["if (i + 1) % args.accum == 0 or i + 1 == len(loader):"],
        ["if i % (args.accum) == 0 or i + 1 == len(loader):"],
    ),
    "last-window-dropped": (
        EPOCHS,
        ["if (i + 1) % args.accum == 0 or i + 1 == len(loader):"],
        ["if (i + 1) % args.accum == 0:"],
    ),
    "scaler-in-loop": (
        LOOP,
        ['scaler = torch.amp.GradScaler("cuda")'],
        ["pass", 'scaler = torch.amp.GradScaler("cuda")'],
    ),
    "scaler-not-saved": (
        (LOOP + SAVED).replace("    for inputs", RESTORED),
        [SAVED.strip()],
        ['torch.save({"optimizer": optimizer.state_dict()}, "c")'],
    ),
    "scaler-not-restored": (
        (LOOP + SAVED).replace("    for inputs", RESTORED),
        ['scaler.load_state_dict(state["scaler"])'],
        ["pass"],
    ),
    "forward-outside-region": (LOOP, ["output = model(inputs)"], ["output = model(inputs)", "pass"]),
    "loss-outside-region": (
        LOOP.replace("MSELoss", "CrossEntropyLoss"),
        ["loss = criterion(output, targets)"],
        ["pass", "loss = criterion(output, targets)"],
    ),
    "probabilities": (
        LOOP.replace("MSELoss", "BCEWithLogitsLoss"),
        ["criterion = nn.BCEWithLogitsLoss()"],
        ["criterion = nn.BCELoss()"],
    ),
    "model-in-half": (
        LOOP,
        ["model = nn.Linear(4, 1).cuda()"],
        ["model = nn.Linear(4, 1).cuda().half()"],
    ),
    "flag-dropped": (
        FLAGS,
        ['with torch.autocast("cuda", enabled=args.amp):'],
        ['with torch.autocast("cuda", enabled=True):'],
    ),
    "scaler-disabled": (
        LOOP,
        ['scaler = torch.amp.GradScaler("cuda")'],
        ['scaler = torch.amp.GradScaler("cuda", enabled=False)'],
    ),
    "float16-without-scaler": (
        NO_SCALER,
        ['with torch.autocast("cuda", dtype=torch.bfloat16):'],
        ['with torch.autocast("cuda", dtype=torch.float16):'],
    ),
    "dtype-left-out": (
        NO_SCALER,
        ['with torch.autocast("cuda", dtype=torch.bfloat16):'],
        ['with torch.autocast("cuda"):'],
    ),
    "unscale-before-backward": (LOOP, ["scaler.unscale_(optimizer)"], ["scaler.unscale_(optimizer)", "pass"]),
    "unscale-another": (PAIR, ["scaler.unscale_(second)"], ["scaler.unscale_(first)"]),
    "step-by-another": (SCALERS, ["scaler.step(first)"], ["other_scaler.step(first)"]),
    "division-behind-backward": (
        WINDOW.replace(" / args.accum\n", "\n        loss = loss / args.accum\n"),
        ["scaler.scale(loss).backward()"],
        ["pass", "scaler.scale(loss).backward()"],
    ),
}


def changed(operator: Operator, text: str) -> str:
    """The text with the mistake. Fails where there is no place for it."""
    result = operator.apply(Script(text))
    assert result is not None
    return result


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.name)
def test_one_place_is_changed(operator: Operator) -> None:
    text, removed, added = CASES[operator.name]
    lines = [*difflib.ndiff(text.splitlines(), changed(operator, text).splitlines())]
    assert [line[1:].strip() for line in lines if line.startswith("-")] == removed
    assert [line[1:].strip() for line in lines if line.startswith("+")] == added


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.name)
def test_a_plain_script_shows_the_mistake(operator: Operator) -> None:
    text, _, _ = CASES[operator.name]
    before = [finding.code for finding in check(text, Settings(select=("ALL",)))]
    after = [finding.code for finding in check(changed(operator, text), Settings(select=("ALL",)))]
    assert any(after.count(code) > before.count(code) for code in operator.codes)


def test_both_halves_hold_repositories() -> None:
    assert {half_of(name) for name in repositories()} == {"read", "held"}
