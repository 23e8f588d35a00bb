"""Positions that are converted to the dtype of something else: said to those who ask for it."""

from __future__ import annotations

import textwrap

import pytest
import torch

from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of

RULES = (load_registry().rules["AMP406"],)
HEADER = """\
import torch
from torch import nn


"""
PROGRAMS = {
    "coordinates are put into columns": """
        def places(height, width, device, dtype):
            ids = torch.zeros(height, width, 3)
            ids[..., 1] = ids[..., 1] + torch.arange(height)[:, None]
            ids[..., 2] = ids[..., 2] + torch.arange(width)[None, :]
            ids = ids.reshape(-1, 3).repeat(2, 1)
            return ids.to(device=device, dtype=dtype)  # found
    """,
    "coordinates are added to columns": """
        def grid(rows, columns, like):
            out = torch.zeros((rows, columns, 2), device=like.device)
            out[..., 0] += torch.arange(rows, device=like.device)[:, None]
            out[..., 1] += torch.arange(columns, device=like.device)
            return out.to(like.dtype)  # found
    """,
    "something else is put into columns": """
        def grid(rows, columns, noise, dtype):
            out = torch.zeros((rows, columns, 2))
            out[..., 0] = noise
            out[..., 1] = out[..., 0] + torch.arange(columns)
            return out.to(dtype)
    """,
    "flags are put into columns": """
        def flags(rows, chosen, dtype):
            out = torch.zeros((rows, 2))
            out[:, chosen] = 1
            return out.to(dtype)
    """,
    "positions follow frequencies": """
        class Rotary(nn.Module):
            def __init__(self, width, exact=False):
                super().__init__()
                self.exact = exact
                turns = 1.0 / 500 ** (torch.arange(0, width, 2).float() / width)
                self.register_buffer("turns", turns, persistent=False)

            def forward(self, length, start=0):
                turns = self.turns
                if self.exact:
                    if turns.dtype != torch.float32:
                        turns = turns.float()
                    places = torch.arange(length, dtype=torch.float32) + start
                else:
                    places = torch.arange(length, device=turns.device) + start
                places = places.type_as(self.turns)  # found
                return torch.outer(places, turns)
    """,
    "positions follow what a layer is given": """
        class Ramp(nn.Module):
            def forward(self, x):
                return x * torch.arange(x.shape[-1], device=x.device).type_as(x)  # found
    """,
    "frequencies are asked for their dtype": """
        class Rotary(nn.Module):
            def __init__(self, width):
                super().__init__()
                turns = 1.0 / 500 ** (torch.arange(0, width, 2).float() / width)
                self.register_buffer("turns", turns, persistent=False)

            def forward(self, length):
                turns = self.turns
                if turns.dtype != torch.float32:
                    turns = turns.float()
                places = torch.arange(length, device=turns.device).type_as(self.turns)
                return torch.outer(places, turns)
    """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_positions(program: str) -> None:
    code = HEADER + textwrap.dedent(program).lstrip("\n")
    marked = {row for row, line in enumerate(code.splitlines(), 1) if "# found" in line}
    found = findings_of(code, RULES, asked=frozenset({"AMP406"}))
    assert {one.span.start.row for one in found} == marked
    assert all(one.severity is Severity.INFO for one in found)


def test_half_rounds_positions() -> None:
    assert torch.tensor(257.0).bfloat16() == 256
    assert torch.tensor(2049.0).half() == 2048
