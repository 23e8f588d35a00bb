"""Dictionaries of settings that are modified before a call takes them."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from tests.linting import findings_of

RULES = load_registry().rules
PROGRAM = """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def main(args):
    {before}
    model = AutoModelForCausalLM.from_pretrained("gpt2", **settings)
    Trainer(model=model, args=TrainingArguments(output_dir="out", fp16=True)).train()
"""
HALF = {
    "an item": 'settings = {"a": 1}; settings["torch_dtype"] = torch.float16',
    "an item of an empty one": 'settings = {}; settings["torch_dtype"] = torch.float16',
    "an item that replaces another": 'settings = dict(torch_dtype=None); settings["torch_dtype"] = torch.float16',
    "update with a name": "settings = dict(a=1); settings.update(torch_dtype=torch.float16)",
    "update with a dictionary": 'settings = dict(a=1); settings.update({"torch_dtype": torch.float16})',
    "a default": 'settings = {"a": 1}; settings.setdefault("torch_dtype", torch.float16)',
    "a display": 'settings = {"a": 1}; settings = {**settings, "torch_dtype": torch.float16}',
    "a union": 'settings = {"a": 1} | {"torch_dtype": torch.float16}',
    "a union in place": 'settings = {"a": 1}; settings |= {"torch_dtype": torch.float16}',
    "another item removed": 'settings = {"a": 1, "torch_dtype": torch.float16}; settings.pop("a")',
    "a default beside it": 'settings = dict(torch_dtype=torch.float16); settings.setdefault("torch_dtype", None)',
}
FLOAT32 = {
    "a new item": 'settings = {"torch_dtype": torch.float16}; settings["torch_dtype"] = torch.float32',
    "an unknown item": 'settings = {"torch_dtype": torch.float16}; settings["torch_dtype"] = args.dtype',
    "update with a name": "settings = dict(torch_dtype=torch.float16); settings.update(torch_dtype=torch.float32)",
    "pop": 'settings = {"torch_dtype": torch.float16}; settings.pop("torch_dtype")',
    "pop with a default": 'settings = {"torch_dtype": torch.float16}; settings.pop("torch_dtype", None)',
    "del": 'settings = {"torch_dtype": torch.float16}; del settings["torch_dtype"]',
    "a display": 'settings = {"torch_dtype": torch.float16}; settings = {**settings, "torch_dtype": torch.float32}',
    "a union": 'settings = {"torch_dtype": torch.float16} | {"torch_dtype": torch.float32}',
    "an item of another dictionary": 'settings = {"a": 1}; other = {"a": 2}; other["torch_dtype"] = torch.float16',
    "an item of another empty one": 'settings = {}; other = {}; other["torch_dtype"] = torch.float16',
}


def told(before: str) -> list[str]:
    raw = PROGRAM.format(before=before).encode()
    rules = screen([rule for rule in RULES.values() if rule.default], raw, frozenset())
    found = findings_of(raw, rules, path="/nowhere/script.py")
    return [one.code for one in found if one.code == "AMP706"]


@pytest.mark.parametrize("before", HALF.values(), ids=list(HALF))
def test_settings_made_half(before: str) -> None:
    assert told(before) == ["AMP706"]


@pytest.mark.parametrize("before", FLOAT32.values(), ids=list(FLOAT32))
def test_settings_made_float32(before: str) -> None:
    assert told(before) == []
