"""What half does to squares, positions, sums and losses: lines that rules report, and lines that they leave alone."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of

RULES = tuple(rule for code, rule in load_registry().rules.items() if "AMP405" <= code <= "AMP413")
HEADER = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


def run(x, y, n, labels, dtype):
    half, brain = x.half(), x.bfloat16()
    with torch.autocast("cuda", dtype=torch.float16):
        product = x @ y
"""


def found(lines: str, asked: frozenset[str] = frozenset()) -> list[tuple[str, Severity]]:
    """What is reported in `lines`, the end of a function, where the rules in `asked` are selected by their code."""
    code = HEADER + textwrap.indent(textwrap.dedent(lines).strip("\n"), "    ") + "\n"
    findings = findings_of(code, RULES, asked=asked)
    return [(finding.code, finding.severity) for finding in findings]


BAD = """\
AMP405 (half * half).sum()
AMP405 half.pow(2).mean(-1, keepdim=True)
AMP405 torch.square(product).mean()
AMP405 ((half - x.half()) ** 2).sum().sqrt()
AMP405 (half * half).view(-1).sum()
AMP405 (half.sum(0) * half.sum(0)).mean()
AMP406 torch.arange(n, dtype=torch.float16)
AMP406 torch.arange(n, device=x.device).to(torch.bfloat16)
AMP406 (torch.arange(n) + 1).half()
AMP406 torch.arange(n).type(torch.float16)
AMP406 torch.arange(n - 1, -1, -1.0, dtype=torch.float16)
AMP406 torch.linspace(0, n - 1, n, dtype=torch.float16)
AMP406 torch.arange(-n, n, dtype=torch.float16)
AMP406 (torch.arange(n)[:, None] * x).half().cos()
AMP407 (half > 0).half().sum()
AMP407 brain.mul_(0.999)
AMP408 F.cross_entropy(half, labels)
AMP408 F.log_softmax(product, dim=-1)
AMP408 nn.MSELoss()(brain, y.bfloat16())
AMP412 torch.ones(4, dtype=torch.bfloat16) + 1e-3
"""
GOOD = """\
(half * y.half()).sum()
(half.float() * half.float()).sum()
(half.sum(0) * half.sum(1)).mean()
(torch.maximum(half, n) * torch.maximum(half, labels)).sum()
(nn.Linear(4, 4).half()(half) * nn.Linear(4, 4).half()(half)).sum()
brain.pow(2).mean()
half.pow(2)
torch.var(half, dim=-1)
(torch.randn(4, dtype=torch.float16) ** 2).mean()
torch.arange(10, dtype=torch.float16)
torch.arange(0, n, 2, dtype=torch.float16)
torch.linspace(0, 1, n, dtype=torch.float16)
torch.linspace(-n, n, 2 * n + 1, dtype=torch.float16)
torch.arange(-n, n + 1, dtype=torch.float16)
(torch.arange(n) / n).half()
(torch.arange(n)[None] < labels[:, None]).half()
(torch.arange(n)[:, None] * x.float()).cos().half()
torch.arange(n, dtype=labels.dtype)
product * torch.arange(n).type_as(labels)
(x > 0).sum()
brain.mul_(0.9)
x.float().mul_(0.9999)
F.cross_entropy(half.float(), labels)
F.mse_loss(half, y.float())
half.softmax(dim=-1)
torch.ones(4, dtype=torch.bfloat16) + 0.5
torch.ones(4) + 1e-3
"""


@pytest.mark.parametrize("line", BAD.splitlines())
def test_loses_in_half(line: str) -> None:
    code, _, expression = line.partition(" ")
    opt_in = code == "AMP405" or (code == "AMP406" and "dtype=" not in expression and "cos" not in expression)
    expected = set() if opt_in else {code}
    assert {told for told, _ in found(f"return {expression}")} == expected
    assert code in {told for told, _ in found(f"return {expression}", frozenset({code}))}


@pytest.mark.parametrize(
    ("expression", "severity"),
    [
        ("torch.arange(4096, dtype=torch.float16)", Severity.WARNING),
        ("torch.arange(n, dtype=torch.float16)", Severity.INFO),
        ("torch.arange(4096).half()", Severity.WARNING),
        ("torch.arange(n).half()", None),
        ("torch.arange(1000).to(torch.bfloat16)", Severity.WARNING),
    ],
)
def test_only_whole_numbers_known_to_be_large_are_a_warning(expression: str, severity: Severity | None) -> None:
    assert found(f"return {expression}") == ([("AMP406", severity)] if severity is not None else [])


@pytest.mark.parametrize("expression", GOOD.splitlines())
def test_keeps_what_it_needs(expression: str) -> None:
    assert found(f"return {expression}") == []


def test_a_dtype_that_is_given_weighs_less() -> None:
    line = "return torch.arange(n, dtype=dtype).cos()"
    assert found(line) == []
    assert ("AMP406", Severity.INFO) in found(line, frozenset({"AMP406"}))
    assert found("return torch.arange(n, dtype=dtype) < labels") == []


def test_rows_fit_float16_where_that_is_the_half_dtype() -> None:
    rows = "return torch.arange({}, dtype=torch.float32 if flag else {}).cos()"
    told, asked = [("AMP406", Severity.INFO)], frozenset({"AMP406"})
    assert found(rows.format("height + 1", "torch.float16"), asked) == []
    assert found(rows.format("length + 1", "torch.float16"), asked) == told


def test_sums_of_loops() -> None:
    loop = """
    total = 0
    for part in x:
        total += {}
    return total
    """
    assert found(loop.format("part.half().mean()")) == [("AMP407", Severity.WARNING)]
    assert found(loop.format("part.half().mean().item()")) == []
    assert found(loop.format("part.half().float().mean()")) == []
    assert found(loop.format("part.half()")) == []


def test_sums_of_losses() -> None:
    loop = """
    total = torch.zeros((), dtype={})
    for inputs, labels in y:
        logits = x.half()
        loss = F.cross_entropy(logits, {})
        total += loss.detach()
    return total
    """
    assert {code for code, _ in found(loop.format("torch.float16", "labels.cuda()"))} == {"AMP407", "AMP408"}
    assert "AMP407" not in {code for code, _ in found(loop.format("y.dtype", "y.float()"))}


WINDOWS = """
import torch


def predict(model, image, tiles, weights):
    total = torch.zeros(image.shape, dtype=torch.half, device=image.device)
    count = torch.zeros(image.shape, device=image.device)
    for tile in tiles:
        total[tile] += model(image[tile]) * weights
        count[tile] += weights
    total /= count
    return total
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", True),
        ("dtype=torch.half, ", "", False),
        ("dtype=torch.half", "dtype=torch.bfloat16", True),
        ("    total /= count\n", "", False),
        ("total /= count", "total /= 2", False),
        ("count[tile] += weights", "count[tile] = weights", False),
    ],
)
def test_windows_that_overlap(old: str, new: str, found: bool) -> None:
    """What is divided by a count of its windows has places where several of them meet."""
    code = WINDOWS.replace(old, new) if old else WINDOWS
    findings = findings_of(code, RULES)
    assert [finding.code for finding in findings] == ["AMP407"] * found
    assert all(finding.severity is Severity.INFO for finding in findings)


ROTARY = """
import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim, length, kind):
        super().__init__()
        rates = 1.0 / (1e4 ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("rates", {rates})
        {inside}

    def forward(self, x, length):
        {outside}
        return x.half() * self.cos
"""


@pytest.mark.parametrize("dtype", ["arange(length, dtype=self.rates.dtype)", "arange(length).type_as(self.rates)"])
@pytest.mark.parametrize(
    ("rates", "inside", "found"),
    [("rates", True, False), ("rates.to(kind)", True, True), ("rates", False, True)],
    ids=["constructor", "converted there", "forward"],
)
def test_a_buffer_has_the_dtype_it_was_made_in_while_the_constructor_runs(
    dtype: str, rates: str, inside: bool, found: bool
) -> None:
    fill = f"self.cos = torch.outer(torch.{dtype}, self.rates).cos()"
    code = ROTARY.format(rates=rates, inside=fill if inside else "pass", outside="pass" if inside else fill)
    job = Job("program.py", "", code.encode(), RULES, asked=frozenset({"AMP406"}))
    assert found == any(finding.code == "AMP406" for finding in analyse(job, Modules()).findings)


RESTORED = """
import torch


def divergence(odds, sharp):
    small = False
    if {asked}:
        small, odds = True, odds.float()
    odds = odds.softmax(dim=-1)
    if small:
        odds = odds.to(torch.float16)
    return -odds.log()
"""


@pytest.mark.parametrize(
    ("asked", "severity"),
    [("odds.dtype == torch.float16", Severity.INFO), ("sharp", Severity.INFO)],
)
def test_a_function_that_asks_for_dtypes_may_be_called_in_a_region(asked: str, severity: Severity) -> None:
    findings = findings_of(RESTORED.format(asked=asked), RULES)
    assert [(finding.code, finding.severity) for finding in findings] == [("AMP408", severity)]
