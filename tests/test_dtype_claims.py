"""Claims about dtypes that once were wrong, or missing, against PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dtypes.emulation import cuda_policy
from tests.dtypes.verdict import compare, described

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nfrom world import see\n"
KNOWN = [
    """
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
with torch.autocast("cpu", dtype=torch.bfloat16):
    x = model[0](torch.rand(4, 4))
    see("x", x)
    y = model[-1](x)
    see("y", y)
""",
    """
with torch.autocast("cpu", dtype=torch.float16):
    with torch.autocast("cpu"):
        x = torch.rand(4, 4) @ torch.rand(4, 4)
        see("x", x)
""",
    """
@torch.autocast("cpu")
def product(x):
    y = x @ x
    see("y", y)
with torch.autocast("cpu", dtype=torch.float16):
    product(torch.rand(4, 4))
""",
    """
x = torch.rand(4).half().new_tensor([1, 2])
see("x", x)
""",
    """
x = abs(torch.rand(4).half())
see("x", x)
""",
    """
x = torch.rand(4, dtype=torch.promote_types(torch.float16, torch.bfloat16))
see("x", x)
""",
    """
with torch.autocast("cpu", dtype=torch.float16):
    x = nn.LayerNorm(4, elementwise_affine=False)(torch.rand(4, dtype=torch.float64))
    see("x", x)
""",
    """
x = F.margin_ranking_loss(torch.rand(4).half(), torch.rand(4).half(), torch.rand(4))
see("x", x)
""",
]
FOUND = Path(__file__).parent / "dtypes" / "found"
"""Programs about which the linter once was wrong."""
OPEN = """
layer = nn.Linear(4, 4)
x = torch.rand(4, 4)
with torch.autocast("cpu", dtype=torch.bfloat16):
    with torch.autocast("cpu", dtype=torch.float16):
        y = layer(x)
    z = layer(y)
    see("z", z)
"""
"""Autocast takes the weight it converted to float16 in the region of bfloat16, too, which raises."""


@pytest.mark.parametrize("program", KNOWN)
def test_known(program: str) -> None:
    found = compare(HEAD + program, "cpu")
    assert found.claimed == found.values > 0, described(HEAD + program, found)


def test_open() -> None:
    found = compare(HEAD + OPEN, "cpu")
    assert not found.wrong, described(HEAD + OPEN, found)


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with cuda_policy() if request.param == "cuda" else contextlib.nullcontext():
        yield request.param


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", sorted(path.stem for path in FOUND.glob("*.txt")))
def test_found(name: str, device: str) -> None:
    program = HEAD + (FOUND / f"{name}.txt").read_text(encoding="utf-8").replace('"cpu"', f'"{device}"')
    found = compare(program, device)
    assert found.values > 0
    assert not found.wrong, described(program, found)
