"""Severities: what is not seen makes an info of a warning, and silence of an info unless its rule is selected."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = load_registry().rules
EPSILON = """
    import torch

    def normalise(x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            return x / ({operand} + 1e-8)
"""
LAYER = """
    import torch

    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight.t()

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            return grad @ weight, grad.t() @ x

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2, 2))

        def forward(self, x):
            return Linear.apply(x, self.weight)

    def run(x):
        with torch.autocast("cuda", dtype=torch.float16):
            return {result}
"""


def severities(code: str, program: str, *, asked: bool = False) -> list[str]:
    """The severities of what one rule reports."""
    raw = textwrap.dedent(program).encode()
    found = analyse(
        Job("program.py", "", raw, (RULES[code],), asked=frozenset({code} if asked else ())), Modules()
    ).findings
    return [finding.severity.name for finding in found]


@pytest.mark.parametrize(
    ("operand", "expected"), [("(x @ y)", ["WARNING"]), ("torch.relu(y)", ["INFO"]), ("torch.relu(y.float())", [])]
)
def test_an_epsilon_beside_a_tensor_of_unknown_dtype(operand: str, expected: list[str]) -> None:
    assert severities("AMP402", EPSILON.format(operand=operand)) == expected


def test_a_function_that_nothing_is_seen_to_apply_in_a_region() -> None:
    assert severities("AMP601", LAYER.format(result="Layer()(x)")) == ["WARNING"]
    assert severities("AMP601", LAYER.format(result="x @ x")) == ["INFO"]
