"""Checkpointed segments: which inputs require a gradient."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = [rule for code, rule in load_registry().rules.items() if code == "AMP603"]
BLOCK = """
from torch import nn
from torch.utils import checkpoint as cp


class Block(nn.Module):
    def __init__(self, saving):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.saving = saving

    def forward(self, x, context):
        if {condition}:
            return cp.checkpoint(self.body, x)
        return self.body(x)
"""


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("self.saving", 1),
        ("self.saving and x.requires_grad", 0),
        ("self.saving and context.requires_grad", 1),
        ("self.saving and not x.requires_grad", 1),
    ],
)
def test_the_input_is_asked_for_its_gradient(condition: str, found: int) -> None:
    code = textwrap.dedent(BLOCK).format(condition=condition)
    assert len(findings_of(code, RULES)) == found


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("cp.checkpoint(self.body, x, mask=context)", "error"),
        ("cp.checkpoint(self.body, x, mask=context, use_reentrant=True)", "error"),
        ("cp.checkpoint(self.body, x, mask=context, use_reentrant=False)", ""),
        ("cp.checkpoint(self.body, x, mask=context, use_reentrant=self.saving)", ""),
        ("cp.checkpoint(self.body, x, mask=context, **self.options)", ""),
        ("cp.checkpoint(self.body, x, determinism_check='none', early_stop=False)", "info"),
        ("cp.checkpoint_sequential(self.body, 2, x)", "info"),
    ],
)
def test_keywords_for_a_segment(call: str, told: str) -> None:
    code = textwrap.dedent(BLOCK).format(condition="self.saving").replace("cp.checkpoint(self.body, x)", call)
    findings = findings_of(code, RULES)
    assert [one.severity.name.lower() for one in findings] == ([told] if told else [])
    name = "checkpoint_sequential" if "sequential" in call else "checkpoint"
    assert all(one.message.startswith(f"{name} is called") for one in findings if told == "info")


VERSIONS = """
    import torch
    from torch.utils.checkpoint import checkpoint
    from diffusers.utils import is_torch_version

    class Block(torch.nn.Module):
        def forward(self, hidden):
            for layer in self.layers:
                if self.training and self.checkpointing:
                    if {asked}:
                        hidden = checkpoint(layer, hidden, use_reentrant=False)
                    else:
                        hidden = checkpoint(layer, hidden)
            return hidden
"""


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ('is_torch_version(">=", "1.11.0")', 0),
        ('is_torch_version(operation=">", version="1.10")', 0),
        ('not is_torch_version("<", "1.11.0")', 0),
        ('is_torch_version("<", "1.11.0")', 1),
        ('is_torch_version(">=", "2.4.0")', 1),
        ('is_torch_version(">=", oldest)', 1),
    ],
)
def test_versions_that_are_too_old_to_run(asked: str, found: int) -> None:
    code = textwrap.dedent(VERSIONS).format(asked=asked)
    assert len(findings_of(code, RULES)) == found


def test_a_copy_of_the_function_that_compares_the_version(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text(
        "def is_torch_version(operation, version):\n    return compare(operation, version)\n"
    )
    text = textwrap.dedent(VERSIONS).format(asked='is_torch_version(">=", "1.11.0")')
    path = tmp_path / "block.py"
    path.write_text(text.replace("diffusers.utils", "utils"))
    assert not findings_of(path.read_bytes(), RULES, path=str(path))
