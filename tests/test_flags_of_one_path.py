"""Flags of objects from elsewhere that one path, or a computed name, sets: elsewhere they are what they were."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from tests.linting import findings_of

RULES = load_registry().rules
LOOP = """
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda", enabled={flag})
for x in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, enabled={flag}):
        loss = model(x).sum()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
OPEN = {
    "off on one path": ("args.amp", 'if args.device == "cpu":\n    args.amp = False'),
    "off without a GPU": ("args.amp", "if not torch.cuda.is_available():\n    args.amp = False"),
    "off beside another flag": ("args.amp", "if args.amp and args.bf16:\n    args.amp = False"),
    "an attribute of an attribute": ("cfg.train.amp", "if cfg.debug:\n    cfg.train.amp = False"),
    "an item of what a file holds": (
        'config["amp"]',
        'import yaml\nconfig = yaml.safe_load(open(path))\nif config["device"] == "cpu":\n    config["amp"] = False',
    ),
    "setattr on one path": ("args.amp", 'if args.device == "cpu":\n    setattr(args, "amp", False)'),
    "setattr of all options": (
        "cfg.amp",
        "class Config:\n    amp = False\n\n"
        "cfg = Config()\nfor name, value in vars(args).items():\n    setattr(cfg, name, value)",
    ),
    "a dictionary updated with options": ('cfg["amp"]', 'cfg = {"amp": False}\ncfg.update(vars(args))'),
}
OFF = {
    "off on every path": ("args.amp", "args.amp = False"),
    "off on both paths": ("args.amp", "if args.debug:\n    args.amp = False\nelse:\n    args.amp = False"),
    "a class that is off": ("cfg.amp", "class Config:\n    amp = False\n\ncfg = Config()"),
    "a dictionary updated with other keys": ('cfg["amp"]', 'cfg = {"amp": False}\ncfg.update({"lr": 0.1})'),
    "setattr of a known name": ("cfg.amp", 'class C:\n    amp = False\n\ncfg = C()\nsetattr(cfg, "lr", 0.1)'),
}


def told(flag: str, before: str) -> list[str]:
    raw = f"import torch\n{before}\n{LOOP.format(flag=flag)}".encode()
    rules = screen([rule for rule in RULES.values() if rule.default], raw, frozenset())
    found = findings_of(raw, rules, path="/nowhere/script.py")
    return [one.code for one in found if one.code.startswith("AMP20")]


@pytest.mark.parametrize(("flag", "before"), OPEN.values(), ids=OPEN)
def test_flag_is_open(flag: str, before: str) -> None:
    assert told(flag, before) == ["AMP205"]


@pytest.mark.parametrize(("flag", "before"), OFF.values(), ids=OFF)
def test_flag_is_off(flag: str, before: str) -> None:
    assert "AMP205" not in told(flag, before)
