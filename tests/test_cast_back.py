"""Products that a caller's autocast region takes back to half, where the rules are asked for."""

from __future__ import annotations

import textwrap

import pytest
import torch

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of

RULES = tuple(load_registry().rules[code] for code in ("AMP104", "AMP406"))
HEADER = """\
import torch
from torch import nn


"""
ANGLES = """
class Angles(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("rates", 1.0 / 500 ** (torch.arange(0, width, 2).float() / width))

    {decorator}
    def forward(self, ids):
        turns = {product}
        return turns.cos(), turns.sin()
"""
IN_HALF = "self.rates[None, :, None] @ ids[:, None, :].float()  # AMP406"
MIXED = """
class Mixer(nn.Module):
    {decorator}
    def {method}(self, a, b):
        before = a.dtype
        a, b = a.float(), b.float()
        scores = torch.matmul(a, b.transpose(-1, -2)){told}
        return scores{back}
"""
TOLD = "  # AMP104"
SWITCHED_OFF = '@torch.autocast("cuda", enabled=False)'


def angles(product: str, decorator: str = "") -> str:
    return ANGLES.format(product=product, decorator=decorator)


def mixed(told: str = "", back: str = ".to(before)", method: str = "forward", decorator: str = "") -> str:
    return MIXED.format(told=told, back=back, method=method, decorator=decorator)


PROGRAMS = {
    "rates of a buffer": angles(IN_HALF),
    "rates in an exponential": """
        class Waves(nn.Module):
            def forward(self, times, width):
                rates = torch.exp(-9.2 * torch.arange(0, width) / width)
                turns = torch.einsum("i,j->ij", times.float(), rates)  # AMP406
                return torch.cat([turns.sin(), turns.cos()], dim=-1)
    """,
    "frequencies and positions by their names": """
        class Turns(nn.Module):
            def __init__(self, frequencies):
                super().__init__()
                self.inv_freq = frequencies

            def forward(self, positions, values):
                kept = torch.einsum("i,j->ij", positions.float(), values)
                return kept, torch.einsum("i,j->ij", positions.float(), self.inv_freq)  # AMP406
    """,
    "an elementwise product": angles("self.rates[None, :, None] * ids[:, None, :].float()"),
    "autocast is off": angles(IN_HALF.partition("  #")[0], SWITCHED_OFF),
    "inputs are cast": angles(
        IN_HALF.partition("  #")[0], '@torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)'
    ),
    "an output is given": angles("torch.matmul(self.rates[:, None], ids[None].float(), out=ids)"),
    "a table is made when the object is": """
        class Table(nn.Module):
            def __init__(self, width, length):
                super().__init__()
                rates = 1.0 / 500 ** (torch.arange(0, width, 2).float() / width)
                turns = torch.einsum("i,j->ij", torch.arange(length).float(), rates)
                self.register_buffer("cos", turns.cos())
    """,
    "float64": """
        def rope(ids, width):
            rates = 1.0 / 500 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
            return torch.einsum("i,j->ij", ids, rates).cos()
    """,
    "factors are converted and the result converted back": mixed(TOLD),
    "back to the dtype of another": mixed(TOLD, ".type_as(before)"),
    "the result stays float32": mixed(back=""),
    "the region is off": mixed(decorator=SWITCHED_OFF),
    "an optimizer": mixed(method="step"),
    "half is meant": """
        @torch.autocast("cuda", enabled=False)
        def rounded(t):
            if t.dtype is torch.bfloat16:
                return torch.matmul(t, t.mT)
            return torch.matmul(t.bfloat16(), t.bfloat16().mT)
    """,
    "a choice by dtype behind the product": """
        class Attention(nn.Module):
            @torch.autocast("cuda", enabled=False)
            def forward(self, keys, values):
                found = torch.matmul(
                    values,  # AMP104
                    keys.transpose(-1, -2),
                )
                if found.dtype in (torch.float16, torch.bfloat16):
                    found = found.float()
                return found / found.sum(-1, keepdim=True)
    """,
    "half from layers, and a choice by dtype behind the product": """
        class Attention(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.both, self.act = nn.Conv2d(width, 2 * width, 1), nn.ReLU()

            @torch.autocast("cuda", enabled=False)
            def attend(self, both):
                keys, values = both[:, :8], both[:, 8:]
                found = torch.matmul(values, self.act(keys).transpose(-1, -2))  # AMP104
                if found.dtype in [torch.float16, torch.bfloat16]:
                    found = found.float()
                return found

            def forward(self, x):
                return self.attend(self.both(x))
    """,
    "a choice by dtype before it": """
        class Attention(nn.Module):
            @torch.autocast("cuda", enabled=False)
            def forward(self, keys, values):
                if values.dtype in (torch.float16, torch.bfloat16):
                    keys, values = keys.float(), values.float()
                return torch.matmul(values, keys.transpose(-1, -2))
    """,
    "a caller converts": """
        @torch.autocast("cuda", enabled=False)
        def product(keys, values):
            return torch.matmul(values, keys.transpose(-1, -2))

        def attention(keys, values):
            return product(keys.float(), values.float())
    """,
    "a layer and its input are converted": """
        class Router(nn.Module):
            def __init__(self, width, experts):
                super().__init__()
                self.gate = nn.Linear(width, experts, bias=False)

            def forward(self, tokens):
                gate = self.gate.float()
                return gate(tokens.to(torch.float32)).softmax(-1)  # AMP104
    """,
    "a layer and its input are converted on one path": """
        class Router(nn.Module):
            def __init__(self, width, experts, precise):
                super().__init__()
                self.gate, self.precise = nn.Linear(width, experts), precise

            def forward(self, tokens):
                if self.precise:
                    tokens = tokens.float()
                    gate = self.gate.float()
                else:
                    gate = self.gate
                return gate(tokens)  # AMP104
    """,
    "a layer is made in float32 and its input converted": """
        class Router(nn.Module):
            def __init__(self, width, experts):
                super().__init__()
                self.gate = nn.Linear(width, experts, dtype=torch.float32)
                self.plain = nn.Linear(width, experts)

            def forward(self, tokens):
                tokens = tokens.float()
                return self.gate(tokens), self.plain(tokens)  # AMP104
    """,
    "a parameter and its factor are converted": """
        class Router(nn.Module):
            def __init__(self, width, experts):
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(experts, width))

            def forward(self, tokens):
                logits = nn.functional.linear(tokens.float(), self.weight.type(torch.float32))  # AMP104
                return logits + tokens.float() @ self.weight.float().mT  # AMP104
    """,
    "a layer is converted where autocast is off": """
        class Router(nn.Module):
            def __init__(self, width, experts):
                super().__init__()
                self.gate = nn.Linear(width, experts)

            def forward(self, tokens):
                with torch.autocast(tokens.device.type, enabled=False):
                    return self.gate.float()(tokens.float())
    """,
    "one factor is not converted": """
        class Mixer(nn.Module):
            def forward(self, a, b):
                return torch.matmul(a.float(), b).to(a.dtype)
    """,
}


SHOWN = {"a choice by dtype behind the product", "half from layers, and a choice by dtype behind the product"}
"""Programs that show by themselves that half comes in."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_region_of_the_caller_takes_back(name: str) -> None:
    program = PROGRAMS[name]
    code = HEADER + textwrap.dedent(program).lstrip("\n")
    rows = {row: line for row, line in enumerate(code.splitlines(), 1) if "# AMP" in line}
    findings = analyse(Job("program.py", "", code.encode(), RULES, asked=frozenset({"AMP104", "AMP406"})), Modules())
    assert {(one.span.start.row, one.code) for one in findings.findings} == {
        (row, line.rpartition("# ")[2]) for row, line in rows.items()
    }
    assert all(one.severity is Severity.INFO for one in findings.findings)
    told = findings_of(code, RULES)
    assert [one.span.start.row for one in told] == (list(rows) if name in SHOWN else [])


def test_pytorch_casts_what_was_converted() -> None:
    positions, rates = torch.arange(2000.0)[:, None], torch.tensor([[1.0, 0.1]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        turns = positions.float() @ rates.float()
        precise = positions * rates
    assert turns.dtype == torch.bfloat16
    assert precise.dtype == torch.float32
    assert (turns.float().cos() - precise.cos()).abs().max() > 1
