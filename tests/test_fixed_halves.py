"""Conversions to a half dtype that is written out, beside operands that are not converted: said to those who ask."""

from __future__ import annotations

import textwrap

import pytest
import torch

from tests.test_clashes import found

PROGRAMS = {
    "counts and the scores of a layer": """
        class Router(nn.Module):
            def balance(self, counts, scores):
                return torch.dot(counts.half(), scores.mean(dim=0))  # AMP502

            def mixed(self, x, shares):
                return torch.einsum("be,bed->bd", shares.to(torch.bfloat16), x)  # AMP502

            def alike(self, counts, scores):
                return torch.dot(counts.to(scores.dtype), scores.mean(dim=0))

            def both(self, counts, scores):
                return torch.dot(counts.half(), scores.mean(dim=0).half())

            def in_region(self, counts, scores):
                with torch.autocast("cuda"):
                    return torch.dot(counts.half(), scores.mean(dim=0))

            def by_dtype(self, counts, scores):
                if scores.dtype == torch.float16:
                    return torch.dot(counts.half(), scores.mean(dim=0))
                return torch.dot(counts.float(), scores.mean(dim=0))

            def added(self, counts, scores):
                return counts.half() + scores
    """,
    "an input and own weights": """
        class Head(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(width, width))

            def forward(self, x):
                return x.half() @ self.weight  # AMP502

            def alike(self, x):
                return x.to(self.weight.dtype) @ self.weight
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_half_that_is_written_out(name: str) -> None:
    lines = textwrap.dedent(PROGRAMS[name]).lstrip("\n").splitlines()
    expected = {(row, line.partition("# ")[2]) for row, line in enumerate(lines, 1) if "# AMP" in line}
    assert found(PROGRAMS[name]) == expected


def test_pytorch_refuses_what_is_not_half() -> None:
    counts = torch.ones(4)
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.dot(counts.half(), torch.ones(4))
    assert torch.dot(counts.half(), torch.ones(4).half()) == 4
    assert (counts.half() + torch.ones(4)).dtype is torch.float32
