"""Operations that should run in float32 and may not: what code gives away of that, said to those who ask for it."""

from __future__ import annotations

import textwrap

import pytest
import torch
import torch.nn.functional as F

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Severity

RULES = tuple(rule for code, rule in load_registry().rules.items() if code in ("AMP405", "AMP407", "AMP408"))
HEADER = """\
import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.log_speed = nn.Parameter(torch.zeros(width))
        self.proj = nn.Linear(width, width)

    def forward(self, x, scores, kind):
"""


LOADED = """
def load(name):
    return AutoModel.from_pretrained(name, torch_dtype=torch.bfloat16)
"""


def found(lines: str, below: str = "") -> set[str]:
    """What is said of `lines`, the end of a layer's forward pass, to those who ask for it."""
    code = HEADER + textwrap.indent(textwrap.dedent(lines).strip("\n"), " " * 8) + "\n" + below
    job = Job("program.py", "", code.encode(), RULES, asked=frozenset(rule.code for rule in RULES))
    findings = analyse(job, Modules()).findings
    assert all(finding.severity is Severity.INFO for finding in findings)
    return {finding.code for finding in findings}


FOUND = {
    "softmax, converted back": ("AMP408", "return F.softmax(scores, dim=-1).type_as(x)"),
    "later": ("AMP408", "shares = torch.softmax(scores, -1)\nshares = shares * 0.5\nreturn shares.to(x.dtype)"),
    "norm, converted back": ("AMP405", "return torch.norm(scores, dim=-1).to(x.dtype)"),
    "running sum, converted back": ("AMP407", "return torch.cumsum(scores, -1).to(x.dtype)"),
    "own weight": ("AMP408", "return x * -torch.exp(self.log_speed)"),
    "drawn from": ("AMP408", "shares = F.softmax(scores / 0.7, dim=-1)\nreturn torch.multinomial(shares, 1)"),
    "drawn from beside float32": (
        "AMP408",
        """
        shares = F.softmax(scores, dim=-1)
        shares = (shares - F.one_hot(kind).float() * shares).clamp(min=0)
        return torch.multinomial(shares / shares.sum(-1, keepdim=True), 1)
        """,
    ),
    "drawn from, or from others": (
        "AMP408",
        "shares = scores.softmax(-1)\nreturn torch.multinomial(torch.where(kind, shares, 1.0), 1)",
    ),
    "the most likely ones": (
        "AMP408",
        """
        ordered, places = torch.sort(scores, descending=True)
        return ordered.softmax(dim=-1).cumsum(dim=-1) > 0.9, places
        """,
    ),
    "router": ("AMP408", "gates = F.softmax(scores, dim=1)\nreturn gates"),
    "router by its input": ("AMP408", "router_logits = self.proj(x)\nreturn F.softmax(router_logits, dim=1)"),
    "other branch": (
        "AMP408",
        """
        if kind == "smooth":
            loss = torch.sqrt((x - scores).pow(2) + 1)
        else:
            loss = F.l1_loss(x.float(), scores.float())
        return loss
        """,
    ),
}
NARROWED = {
    "behind a mask": "x = x.float().masked_fill(kind, float('-inf')).type_as(x)\nreturn F.softmax(x, dim=-1)",
    "by its dtype": "wide = scores.float() + x\nscores = wide.to(scores.dtype)\nreturn scores.softmax(-1)",
    "on one path": """
        scores = torch.bmm(x, x.transpose(1, 2))
        if kind is not None:
            scores = scores.float().masked_fill(kind, float("-inf")).type_as(scores).view(4, 8, 8)
        return F.softmax(scores, dim=-1)
        """,
    "for a loss": "x = x.float().clamp(-50, 50).to(x.dtype)\nreturn F.nll_loss(F.log_softmax(x, -1), kind)",
}
PROBABILITIES = {
    "the weight of easy examples": "p = torch.sigmoid(scores)\nreturn x * (1 - p) ** kind",
    "of the right class": "p = scores.sigmoid()\nright = p * x + (1 - p) * (1 - x)\nreturn (1 - right).pow(kind)",
    "the distance from a soft label": "return (scores.sigmoid() - x).abs().pow(kind)",
    "the logarithm of what is left": "return torch.log(1 - F.sigmoid(scores) + 1e-6)",
    "in a region": """
        with torch.autocast("cuda", dtype=torch.float16):
            fooled = torch.log(1.0 - torch.sigmoid(self.proj(x)))
        return fooled
        """,
}
COMPARED = {
    "a divergence": "return F.kl_div(F.log_softmax(x, -1), F.softmax(scores, -1))",
    "written out": "p = scores.softmax(-1)\nreturn (p * (p.log() - x.log_softmax(-1))).sum(-1)",
    "the distance of two": "return (scores.softmax(-1) - torch.softmax(x, dim=-1)).abs().sum(-1)",
    "what two have in common": "p = F.softmax(scores, -1)\nq = F.softmax(x, -1)\nreturn torch.minimum(p, q).sum(-1)",
    "an entropy": "return -(F.softmax(x, dim=-1) * F.log_softmax(x, dim=-1)).sum(-1)",
    "the logarithm of one": "return torch.log(F.softmax(scores, dim=1))",
}
PRODUCTS = {
    "variance by an unseen filter": "mean = self.smooth(x)\nreturn self.smooth(x * x) - mean * mean",
    "variance of patches": """
        mean = F.avg_pool2d(x, 7, stride=1)
        return F.avg_pool2d(x.pow(2), 7, stride=1) - mean.square()
        """,
    "variance by a window": """
        centre = F.conv2d(x, scores, padding=5)
        centre_squared = centre ** 2
        return F.conv2d(x ** 2, scores, padding=5) - centre_squared
        """,
    "area of corners": "x1, y1, x2, y2 = x.unbind(-1)\nreturn (x2 - x1) * (y2 - y1)",
    "area of columns": "x = x.contiguous()\nreturn (x[..., 2] - x[..., 0]) * (x[..., 3] - x[..., 1] + 1)",
    "area of what has some": """
        x1, y1, x2, y2 = x.chunk(4, dim=-1)
        return (x2 - x1).clamp(min=0) * (y2 - y1)
        """,
    "weights of slots": "attn = torch.softmax(x @ scores, dim=1)\nreturn attn / attn.sum(-1, keepdim=True)",
    "weights of a kernel": "near = torch.exp(-(x - scores))\nreturn near / torch.sum(near, dim=1).unsqueeze(1)",
    "weights under a mask": "near = x.softmax(-1) * scores\nreturn near / near.sum(-1, keepdim=True)",
    "linear attention by a function": """
        out = torch.matmul(x, torch.matmul(scores.transpose(-1, -2), F.pad(kind, (0, 1), value=1.0)))
        return out[..., :-1] / (out[..., -1:] + 1e-6)
        """,
    "linear attention": """
        ones = F.pad(scores, (0, 1), value=1.0)
        out = F.relu(x) @ (F.relu(x).transpose(-1, -2) @ ones)
        return out[..., :-1] / (out[..., -1:] + 1e-6)
        """,
}
NO_PRODUCTS = {
    "variance with autocast off": """
        with torch.autocast("cuda", enabled=False):
            mean = self.smooth(x)
            return self.smooth(x * x) - mean * mean
        """,
    "another filter": "mean = self.smooth(x)\nreturn self.sharpen(x * x) - mean * mean",
    "energy less something": "return self.smooth(x * x) - self.smooth(x)",
    "corners of float32": "x1, y1, x2, y2 = x.float().unbind(-1)\nreturn (x2 - x1) * (y2 - y1)",
    "other columns": "x = x.contiguous()\nreturn (x[..., 1] - x[..., 0]) * (x[..., 3] - x[..., 2])",
    "an array": "import cv2\nreturn cv2.blur(kind ** 2, (3, 3)) - cv2.blur(kind, (3, 3)) ** 2",
    "columns of an array": "return (kind[:, 2] - kind[:, 0]) * (kind[:, 3] - kind[:, 1])",
    "squares of what is at most 1": "return ((x.sigmoid() - scores.softmax(-1)) ** 2).mean()",
    "weights that add up to 1": "near = x.softmax(dim=-1)\nreturn near / near.sum(dim=-1, keepdim=True)",
    "weights of which one is 1": "near = (x - x.amax(-1, True)).exp()\nreturn near / near.sum(-1, keepdim=True)",
    "a window": "near = torch.exp(-(torch.arange(9, dtype=x.dtype) - 4) ** 2 / x)\nreturn near / near.sum()",
    "a projection": "seen = x @ F.pad(scores, (0, 1), value=1.0)\nreturn seen[..., :2] / seen[..., 2:]",
    "a sum with an epsilon": "near = torch.exp(-x)\nreturn near / (near.sum(-1, keepdim=True) + 1e-4)",
    "a sum with a lower limit": "near = torch.exp(-x)\nreturn near / near.sum(-1, keepdim=True).clamp(min=1e-4)",
    "weights of float32": "near = torch.exp(-x.float())\nreturn near / near.sum(-1, keepdim=True)",
    "weights of others": "near = torch.exp(-x)\nreturn near / scores.sum(-1, keepdim=True)",
    "numbers of any sign": "return x / x.sum(-1, keepdim=True)",
    "columns of what is no product": "x = x.contiguous()\nreturn x[..., :-1] / x[..., -1:]",
    "two columns": "x = x.contiguous()\nreturn (x[:, 0] * x[:, 1]).sum()",
}
SILENT = {
    "converted back behind": "return F.softmax(x.float().masked_fill(kind, -9.0), dim=-1).type_as(x) * 2",
    "converted again": "x = x.float().relu().type_as(x)\nreturn F.softmax(x.float(), dim=-1)",
    **NO_PRODUCTS,
    "a divergence of float32": """
        p, q = F.softmax(scores.float(), -1), F.log_softmax(x, -1, dtype=torch.float32)
        return F.kl_div(q, p)
        """,
    "two shares that are added": "return scores.softmax(-1) + x.softmax(-1)",
    "two shares that are multiplied": "return scores.softmax(-1) * x.softmax(-2)",
    "a share of something": "return x - scores.softmax(-1)",
    "compared where autocast alone makes half": "return F.kl_div(F.log_softmax(x, -1), F.softmax(scores, -1))",
    "compared in a region": """
        with torch.autocast("cuda", dtype=torch.float16):
            return (scores.softmax(-1) - x.softmax(-1)).abs().sum(-1)
        """,
    "a probability of float32": "return x * (1 - torch.sigmoid(scores.float())) ** kind",
    "a probability that is compared with nothing": "return x * scores.sigmoid() ** kind",
    "the square of a difference": "return (scores.sigmoid() - x) ** 2",
    "the other share": "p = scores.sigmoid()\nreturn p * x + (1 - p) * x.flip(0)",
    "drawn from float32": "return torch.multinomial(F.softmax(scores.float(), -1), 1)",
    "drawn from something else": "return torch.multinomial(scores / scores.amax(), 1)",
    "told its dtype": "return F.softmax(scores, dim=-1, dtype=torch.float32).type_as(x)",
    "converted before": "return F.softmax(scores.float(), dim=-1).type_as(x)",
    "beside what is float32": "return torch.exp(scores - x.float().amax(-1)).to(x.dtype)",
    "of a product": "return (x * torch.log(scores)).to(x.dtype)",
    "kept": "return F.softmax(scores, dim=-1) @ x",
    "in a region": 'with torch.autocast("cuda", dtype=torch.float16):\n    return F.softmax(scores, -1).to(x.dtype)',
    "weight converted": "return x * -torch.exp(self.log_speed.float())",
    "aggregated": "aggregate = F.softmax(scores, dim=1)\nreturn aggregate",
    "same branch": "shown = (x - scores).pow(2)\nreturn F.l1_loss(x.float(), scores.float()), shown",
    "minds dtypes": """
        if x.dtype == torch.float16:
            scores = scores.float()
        return F.softmax(scores, -1).to(x.dtype)
        """,
}


@pytest.mark.parametrize(("code", "lines"), FOUND.values(), ids=FOUND)
def test_found(code: str, lines: str) -> None:
    assert found(lines) == {code}


@pytest.mark.parametrize("lines", NARROWED.values(), ids=NARROWED)
def test_converted_back_too_early(lines: str) -> None:
    assert "AMP408" in found(lines)


@pytest.mark.parametrize("lines", PROBABILITIES.values(), ids=PROBABILITIES)
def test_probabilities_close_to_one(lines: str) -> None:
    assert found(lines) == {"AMP408"}


@pytest.mark.parametrize("lines", COMPARED.values(), ids=COMPARED)
def test_distributions_that_are_compared(lines: str) -> None:
    assert found(lines, LOADED) == {"AMP408"}
    assert found(lines.replace("return ", "loss = ") + "\nloss.sum().backward()") == set()


@pytest.mark.parametrize("lines", PRODUCTS.values(), ids=PRODUCTS)
def test_products_that_overflow_or_cancel(lines: str) -> None:
    assert found(lines) == {"AMP405"}


@pytest.mark.parametrize("lines", SILENT.values(), ids=SILENT)
def test_silent(lines: str) -> None:
    assert found(lines) == set()


def test_known_to_be_half() -> None:
    told = found("x = x.half()\nreturn x.softmax(-1), torch.linalg.norm(x, dim=1), x.sum(), (x - x.roll(1)) ** 2")
    assert told == {"AMP405", "AMP407", "AMP408"}


GRADIENTS = """
import torch

def total(parameters, kind):
    return torch.norm(torch.stack([torch.norm({each}, kind) for each in parameters]), kind){last}
"""


@pytest.mark.parametrize(("each", "last"), [("each.grad.detach()", ""), ("each.grad", "")])
def test_norm_of_gradients(each: str, last: str) -> None:
    job = Job("p.py", "", GRADIENTS.format(each=each, last=last).encode(), RULES, asked=frozenset({"AMP407"}))
    assert [finding.code for finding in analyse(job, Modules()).findings] == ["AMP407"]


@pytest.mark.parametrize(("each", "last"), [("each.grad.float()", ""), ("each.grad", ".item()"), ("each", "")])
def test_norm_of_gradients_in_float32(each: str, last: str) -> None:
    job = Job("p.py", "", GRADIENTS.format(each=each, last=last).encode(), RULES, asked=frozenset({"AMP407"}))
    assert analyse(job, Modules()).findings == []


def test_pytorch_rounds_and_overflows() -> None:
    """Inside, PyTorch computes in float32: what is lost is lost where the result is half."""
    assert torch.tensor(12.0).half().exp().isinf()
    assert torch.full((70000,), 1.0).half().sum().isinf()
    logits = torch.tensor([[1.0, 2.0, 3.0]]).bfloat16()
    wide = F.kl_div(logits.float().log_softmax(-1), logits.float().softmax(-1), reduction="sum")
    narrow = F.kl_div(logits.log_softmax(-1), logits.softmax(-1), reduction="sum")
    assert abs(wide) < 1e-6 < 1e-3 < abs(narrow)
    assert torch.tensor([0.0, 20.0]).half().softmax(-1).log().isinf().any()
    assert torch.full((4,), 40000.0).half().norm().isinf()
    assert (torch.full((4,), 300.0).half() ** 2).isinf().all()
    assert 1 - torch.tensor(8.4).half().sigmoid() == 0 == 1 - torch.tensor(6.3).bfloat16().sigmoid()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.sigmoid(torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    sides = torch.tensor([256.0, 256.0]).half()
    assert (sides[0] * sides[1]).isinf()
    bright = 0.9 + 0.01 * torch.linspace(-1, 1, 49).view(1, 1, 7, 7)
    spread = F.avg_pool2d(bright.half() ** 2, 7) - F.avg_pool2d(bright.half(), 7) ** 2
    assert (spread <= 0).all()
    assert bright.var() > 0
    shares = torch.full((4096,), 1 / 4096).half()
    assert (shares.cumsum(0)[3000:3008].diff() == 0).any()
    gates = torch.tensor([2.0, 2.0004]).bfloat16().softmax(0)
    assert gates[0] == gates[1]
    rate = torch.nn.Parameter(torch.tensor([2.51]))
    assert rate.bfloat16().exp().item() != pytest.approx(rate.exp().item(), rel=1e-4)


AGENT = """
import torch.nn.functional as F

class Agent:
    def __init__(self, options):
        self.model = built(options)
        if options.fp16:
            self.model = self.model{halved}

    def loss(self, batch, labels):
        return F.cross_entropy(self.model(batch){converted}, labels)
"""


@pytest.mark.parametrize(
    ("halved", "converted", "expected"),
    [(".half()", "", ["AMP408"]), (".half()", ".float()", []), (".cuda()", "", []), (".float()", "", [])],
)
def test_output_of_what_an_option_converts(halved: str, converted: str, expected: list[str]) -> None:
    code = AGENT.format(halved=halved, converted=converted).encode()
    job = Job("program.py", "", code, RULES, asked=frozenset({"AMP408"}))
    assert [finding.code for finding in analyse(job, Modules()).findings] == expected


LOG_PROBABILITIES = """
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("tiny", torch_dtype=torch.bfloat16)


def log_probabilities(model, tokens):
    logits = model(input_ids=tokens).logits
    return {expression}


print(log_probabilities(model, torch.zeros(1, 4, dtype=torch.long)))
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("F.log_softmax(logits, dim=-1)", ["AMP408"]),
        ("logits[:, :-1].log_softmax(-1)", ["AMP408"]),
        ("F.log_softmax(logits.float(), dim=-1)", []),
        ("logits.log_softmax(-1, dtype=torch.float32)", []),
        ("logits.argmax(-1)", []),
    ],
)
def test_log_probabilities_of_a_loaded_half_model(expression: str, expected: list[str]) -> None:
    code = LOG_PROBABILITIES.format(expression=expression).encode()
    job = Job("program.py", "", code, RULES, asked=frozenset({"AMP408"}))
    assert [finding.code for finding in analyse(job, Modules()).findings] == expected


def test_scaled_scores_that_are_converted_are_no_product() -> None:
    """Their conversion has one operand, where the product that scaled them had two."""
    code = """
import math
import torch
from torch import nn

class Attention(nn.Module):
    def split(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(-3, -2)

    def attend(self, value: torch.Tensor, scores: torch.Tensor, mask: torch.Tensor = torch.ones(0, dtype=torch.bool)):
        if mask.size(-1) > 0:
            pass
        else:
            shares = torch.softmax(scores.float(), dim=-1).type_as(value)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor = torch.ones(0)):
        q = self.split("query", query)
        if not self.fused:
            scores = torch.matmul(q, key.transpose(-2, -1)) / math.sqrt(self.width)
            return self.attend(value, scores, mask)
"""
    job = Job("program.py", "", code.encode(), RULES, asked=frozenset(rule.code for rule in RULES))
    assert "AMP003" not in {finding.code for finding in analyse(job, Modules()).findings}
