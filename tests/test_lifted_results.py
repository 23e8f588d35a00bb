"""Results that stay float32 by a conversion: each program is linted, and run on PyTorch in bfloat16."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import torch

from tests.test_dtypes_met import HEADER, found

PROGRAMS = {
    "a norm multiplied by its own scale": """
        class Scaled(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(width))

            def forward(self, x):
                wide = x.to(torch.float32)
                wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
                return self.scale * wide  # AMP502

        class Converted(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(width))

            def forward(self, x):
                wide = x.to(torch.float32)
                wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
                return self.scale * wide.to(x.dtype)

        def behind(norm):
            return nn.Sequential(norm, nn.Linear(4, 4)).bfloat16()(torch.rand(2, 4).bfloat16())

        bad, good = lambda: behind(Scaled(4)), lambda: behind(Converted(4))
    """,
    "a layer that derives from one of PyTorch": """
        class Wide(nn.GroupNorm):
            def forward(self, x):
                weight, bias = self.weight.float(), self.bias.float()
                return F.group_norm(x.float(), self.num_groups, weight, bias, self.eps)  # AMP502

        class Converted(nn.GroupNorm):
            def forward(self, x):
                weight, bias = self.weight.float(), self.bias.float()
                return F.group_norm(x.float(), self.num_groups, weight, bias, self.eps).type_as(x)

        def behind(norm):
            return nn.Sequential(norm, nn.Linear(4, 4)).bfloat16()(torch.rand(2, 4).bfloat16())

        bad, good = lambda: behind(Wide(2, 4)), lambda: behind(Converted(2, 4))
    """,
    "what the layer below returns": """
        class Wide(nn.SiLU):
            def forward(self, x):
                return super().forward(x.float())  # AMP502

        class Converted(nn.SiLU):
            def forward(self, x):
                return super().forward(x.float()).to(x.dtype)

        def behind(activation):
            return nn.Sequential(activation, nn.Linear(4, 4)).bfloat16()(torch.rand(2, 4).bfloat16())

        bad, good = lambda: behind(Wide()), lambda: behind(Converted())
    """,
    "one of two results converted back": """
        def turn(q, k, cos, sin):
            turned = q.float() * cos + q.float().flip(-1) * sin
            other = (k.float() * cos + k.float().flip(-1) * sin).type_as(k)
            return turned, other  # AMP502

        def turned_back(q, k, cos, sin):
            turned = (q.float() * cos + q.float().flip(-1) * sin).type_as(q)
            other = (k.float() * cos + k.float().flip(-1) * sin).type_as(k)
            return turned, other

        def behind(function):
            q, k = function(*torch.rand(2, 3, 4).bfloat16(), *torch.rand(2, 3, 4))
            return getattr(torch, "mm")(q, k.t())

        bad, good = lambda: behind(turn), lambda: behind(turned_back)
    """,
    "converted by its caller": """
        class Scaled(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(width))

            def forward(self, x):
                return self.scale * x.float().tanh()

        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.norm, self.dense = Scaled(width), nn.Linear(width, width)

            def forward(self, x):
                return self.dense(self.norm(x).to(x.dtype))

        behind, x = nn.Sequential(Scaled(4), nn.Linear(4, 4)).bfloat16(), torch.rand(2, 4).bfloat16()
        bad, good = lambda: behind(x), lambda: Block(4).bfloat16()(x)
    """,
    "dropout of weights that softmax was asked for in float32": """
        class Attention(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.value, self.drop = nn.Linear(width, width), nn.Dropout(0.1)

            def forward(self, x, scores):
                weights = self.drop(scores.softmax(dim=-1, dtype=torch.float32)).masked_fill(scores > 9, 0.0)
                return torch.matmul(weights, self.value(x))  # AMP502

            def converted(self, x, scores):
                weights = self.drop(scores.softmax(dim=-1, dtype=torch.float32)).to(x.dtype)
                return torch.matmul(weights, self.value(x))

        model, given = Attention(4).bfloat16(), (torch.rand(3, 4).bfloat16(), torch.rand(3, 3).bfloat16())
        bad, good = lambda: model(*given), lambda: model.converted(*given)
    """,
    "a loss and a result that is only converted": """
        class TokenLoss(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(width))

            def forward(self, x):
                return self.scale * x.float().tanh()

        def logits(x):
            return x.float()

        def behind(function):
            return nn.Linear(4, 4).bfloat16()(getattr(function(torch.rand(2, 4).bfloat16()), "T").T)

        bad, good = lambda: behind(logits), lambda: TokenLoss(4)(torch.rand(2, 4).bfloat16())
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_found(name: str) -> None:
    lines = textwrap.dedent(PROGRAMS[name]).lstrip("\n").splitlines()
    marked = [(row, line[-6:]) for row, line in enumerate(lines, 1) if "# AMP" in line]
    assert found(PROGRAMS[name]) == set(marked)


@pytest.mark.parametrize("name", PROGRAMS)
def test_real(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(HEADER + textwrap.dedent(PROGRAMS[name]), namespace)
    with torch.no_grad():
        namespace["good"]()
        with pytest.raises(RuntimeError, match=r"dtype|scalar type"):
            namespace["bad"]()
