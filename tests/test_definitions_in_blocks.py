"""Functions and classes that an `if` or a `try` at the top level defines are started like others."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = tuple(load_registry().rules[code] for code in ("AMP203", "AMP601"))
TRAINS = """
import torch
from torch import nn

{head}
def train(model: nn.Module, optimizer, scaler: torch.amp.GradScaler, batches):
    for batch in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight.t(), x.t() @ gradient
"""
HEADS = {
    "the top level": "",
    "if": "if torch.cuda.is_available():\n",
    "else": "if not torch.cuda.is_available():\n    print('slow')\nelse:\n",
    "try": "try:\n    import kernels\nexcept ImportError:\n    kernels = None\nelse:\n",
}


def found(head: str) -> set[str]:
    """The codes of what is reported where the definitions stand behind `head`."""
    imports, body = TRAINS.split("{head}\n")
    code = imports + head + (textwrap.indent(body, "    ") if head else body)
    return {finding.code for finding in findings_of(code, RULES)}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_definitions_are_started(head: str) -> None:
    assert found(head) == found("") != set()


def test_definitions_of_a_script_are_started_by_its_calls_alone() -> None:
    assert found('if __name__ == "__main__":\n') == set()
