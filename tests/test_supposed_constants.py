"""Constants that meet what nothing shows to be half: said to those who ask for it."""

from __future__ import annotations

import pytest
import torch

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = tuple(load_registry().rules[code] for code in ("AMP401", "AMP402"))
HEADER = """\
import torch
from torch import nn
from helpers import NEAR_INF, INF, hide, scatter

class Layer(nn.Module):
    def forward(self, x, z, levels, targets, mask):
"""


def found(*lines: str) -> list[tuple[str, int]]:
    """What is said of `lines`, the body of a forward pass, to those who ask for it."""
    code = HEADER + "".join(f"        {line}\n" for line in lines)
    job = Job("program.py", "", code.encode(), RULES, asked=frozenset({"AMP401", "AMP402"}))
    return [(each.code, each.span.start.row - HEADER.count("\n")) for each in analyse(job, Modules()).findings]


def test_loops_of_layers() -> None:
    assert found("for level in levels:", "    level = level / (level.std(dim=-1) + 1e-12)") == [("AMP402", 2)]
    assert found("for each in targets:", "    each = each / (each.std(dim=-1) + 1e-12)") == []


@pytest.mark.parametrize(
    "line",
    ["return torch.log(x / (z + 1e-8))", "return (x + 1e-10).log()", "return -(1 - x + 1e-8).log().mean()"],
)
def test_names_of_tensors(line: str) -> None:
    assert found(line) == [("AMP402", 1)]


def test_limits_past_float16() -> None:
    assert found("return x.softmax(-1).clamp(max=1e6)") == [("AMP401", 1)]
    assert found("return torch.clamp(x.softmax(-1), -1e9, 1e4)") == [("AMP401", 1)]
    assert found("return x.softmax(-1).clamp(-1e4, 1e4)") == []
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.ones(2, dtype=torch.float16).clamp(max=1e6)


def test_counts_are_no_tensors() -> None:
    assert found("count = len(levels)", "return torch.log(x / (count + 1e-8))") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return x.softmax(-1).masked_fill(mask, -NEAR_INF)", [("AMP401", 1)]),
        ("return x.softmax(-1).masked_fill(mask, INF)", []),
        ("return hide_masked(x.softmax(-1), mask, -1e12)", [("AMP401", 1)]),
        ("return apply_mask(x.softmax(-1), mask, value=1e9)", [("AMP401", 1)]),
        ("return apply_mask(x.softmax(-1), mask.unsqueeze(1).bool(), -1e9)", [("AMP401", 1)]),
        ("return apply_mask(x.softmax(-1), ~mask[:, None], -1e9)", [("AMP401", 1)]),
        ("return apply_mask(x.softmax(-1), chosen(mask), -1e9)", []),
        ("return hide_masked(x.softmax(-1), mask, -1e4)", []),
        ("return hide_masked(x.softmax(-1), z, -1e12)", []),
        ("return scatter(x.softmax(-1), mask, -1e12)", []),
    ],
)
def test_fills_out_of_sight(line: str, expected: list[tuple[str, int]]) -> None:
    assert found(line) == expected


def test_elements_are_assigned() -> None:
    assert found("scores = torch.matmul(x, z)", "scores[:, mask] = -NEAR_INF") == [("AMP401", 2)]


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ("torch.sqrt(torch.tensor(x.shape[-1]).to(torch.float32))", [("AMP401", 2)]),
        ("torch.tensor(x.size(-1), dtype=torch.float32).sqrt()", [("AMP401", 2)]),
        ("torch.tensor(nn.Linear(4, 4)(x).shape[-1]).float()", [("AMP401", 2)]),
        ("torch.tensor([x.shape[-1]], dtype=torch.float32).sqrt()", []),
        ("torch.tensor(x.shape, dtype=torch.float32).sqrt()", []),
    ],
)
def test_a_scale_without_dimensions_widens_nothing(scale: str, expected: list[tuple[str, int]]) -> None:
    assert found(f"scores = torch.bmm(x, z) / {scale}", "return scores.masked_fill(mask, -1e9)") == expected


def test_pytorch_widens_by_dimensions_alone() -> None:
    scores = torch.ones(2, 2).half()
    assert (scores / torch.tensor(4.0)).dtype is torch.float16
    assert (scores / torch.tensor([4.0])).dtype is torch.float32
