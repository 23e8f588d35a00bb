"""Half-precision numerics: small programs whose comments say which rule fires on which line."""

from __future__ import annotations

import itertools
import re
import textwrap

import pytest

from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from amplint.findings import Finding, Severity
from tests.linting import findings_of

RULES = [rule for code, rule in load_registry().rules.items() if "AMP401" <= code <= "AMP404"]
HEADER = """\
import math
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

"""
REGION = 'with torch.autocast("cuda", dtype=torch.float16):'


def lint(code: str) -> list[Finding]:
    """What the rules of this family find; diagnostics included."""
    return findings_of(code, RULES)


def check(body: str) -> None:
    """Lint `body` below the header; `# AMP401 AMP402` ends the lines that these rules report."""
    code = HEADER + textwrap.dedent(body).lstrip("\n")
    expected = {
        (row, rule)
        for row, line in enumerate(code.splitlines(), 1)
        for rule in re.findall(r"AMP\d+", line.partition("#")[2])
    }
    assert {(finding.span.start.row, finding.code) for finding in lint(code)} == expected
    assert {rule for _, rule in expected} <= {rule.code for rule in screen(RULES, code.encode())}


def in_region(lines: str) -> str:
    """`lines` in a float16 region of CUDA, with `half` a tensor known to be float16 and `x`, `mask` unknown ones."""
    start = f"def run(x, mask, a, b):\n    {REGION}\n        half = a @ b\n"
    return start + textwrap.indent(textwrap.dedent(lines).strip("\n"), " " * 8) + "\n"


CONSTANTS = {
    "literal": "-1e9",
    "integer": "-10**9",
    "digits": "-100000",
    "power": "-2**32 + 1",
    "product": "-1 * 1e9",
    "division": "-1e10 / 2",
    "call": 'float("-1e9")',
    "maximum of float32": "-torch.finfo(torch.float32).max",
    "minimum of float32": "torch.finfo(torch.float32).min",
    "maxsize": "-sys.maxsize",
}


@pytest.mark.parametrize("constant", CONSTANTS.values(), ids=CONSTANTS)
def test_constants_are_followed(constant: str) -> None:
    check(in_region(f"out = half.masked_fill(mask, {constant})  # AMP401"))
    check(in_region(f"value = {constant}\nout = half.masked_fill(mask, value)  # AMP401"))
    check(f"VALUE = {constant}  # AMP401\n" + in_region("out = half.masked_fill(mask, VALUE)"))
    check(f"VALUE = {constant.removeprefix('-')}  # AMP401\n" + in_region("out = half.masked_fill(mask, -VALUE)"))


def test_constants_from_classes_and_defaults() -> None:
    check("""
        class Attention(nn.Module):
            LOW = -1e9  # AMP401

            def __init__(
                self,
                fill=-1e10,  # AMP401
                eps=1e-8,  # AMP402
            ):
                super().__init__()
                self.fill = fill
                self.eps = eps
                self.high = 1e11  # AMP401

            @torch.autocast("cuda", dtype=torch.float16)
            def forward(self, q, k, mask, value=-1e12):  # AMP401
                scores = q @ k
                first = scores.masked_fill(mask, self.LOW)
                second = scores.masked_fill(mask, self.fill)
                third = scores.masked_fill(mask, value)
                fourth = scores.masked_fill(mask, -self.high)
                return first / (second.amax() + self.eps)
    """)


def test_constants_handed_over() -> None:
    check("""
        def fill(tensor, mask, value):
            return tensor.masked_fill(~mask, value)

        @torch.autocast("cuda", dtype=torch.float16)
        def run(q, k, mask):
            scores = fill(q @ k, mask, -1e20)  # AMP401
            scores = fill(scores, mask, -1e4)
            return fill(scores, mask, value=-1e9)  # AMP401
    """)


def test_nan_is_no_number_that_overflows() -> None:
    check(in_region('out = half.masked_fill(mask, float("nan"))\nout = half.new_full((3,), math.nan)'))


def test_numbers_past_float64() -> None:
    check(in_region(f"out = half.masked_fill(mask, -1{'0' * 400})  # AMP401"))


INFINITIES = {
    "float": 'float("-inf")',
    "negated": '-float("inf")',
    "capital": '-float("Inf")',
    "word": 'float("-infinity")',
    "math": "-math.inf",
    "numpy": "-np.inf",
    "torch": "-torch.inf",
    "conversion": "float(-math.inf)",
}


@pytest.mark.parametrize("infinity", INFINITIES.values(), ids=INFINITIES)
def test_infinities_are_followed(infinity: str) -> None:
    check(in_region(f"out = half.masked_fill(mask, {infinity}).softmax(dim=-1)  # AMP403"))
    check(f"INF = {infinity}\n" + in_region("out = half.masked_fill(mask, INF).softmax(dim=-1)  # AMP403"))


@pytest.mark.parametrize("module", ["math", "torch", "numpy"])
def test_imported_infinity(module: str) -> None:
    check(f"from {module} import inf\n" + in_region("out = half.masked_fill(mask, -inf).softmax(dim=-1)  # AMP403"))


OVERFLOWS = """
half.masked_fill(mask, -1e9)
half.masked_fill(mask=mask, value=-1e9)
half.masked_fill_(mask, -1e9)
torch.masked_fill(half, mask, -1e9)
x.masked_fill(mask, -1e9)
half.fill_(1e6)
half.clamp(max=1e6)
half.clamp(-1e6)
torch.clamp(half, min=-1e5)
half + 1e6
1e6 - half
half * 1e6
half.mul(1e6)
half.add_(1e6)
torch.where(mask, half, -1e9)
torch.where(mask, 1e9, half)
torch.where(mask, x, -1e9)
torch.full((2, 2), 1e9, dtype=torch.float16)
torch.full_like(half, 1e9)
half.new_full((2, 2), 1e9)
torch.tensor(1e9, dtype=torch.half)
F.pad(half, (1, 1), value=-1e9)
half.index_fill(0, mask, -1e9)
x.half() * 1e6
(1 - x.to(torch.float16)) * -1e9
x.type(torch.cuda.HalfTensor) * 1e6
torch.zeros(2, dtype=x.dtype).masked_fill(mask, -1e9)
torch.zeros_like(half).masked_fill(mask, -1e9)
F.relu(F.linear(x, a)).masked_fill(mask, 1e9)
half.float().to(half.dtype) * 1e6
half.masked_fill(mask, 65505)
"""
FITS = """
half.masked_fill(mask, -1e4)
half.masked_fill(mask, -65504.0)
half.masked_fill(mask, torch.finfo(half.dtype).min)
half.masked_fill(mask, -torch.finfo(torch.float16).max)
half.masked_fill(mask, value)
half.float().masked_fill(mask, -1e9)
half.to(torch.float32).masked_fill(mask, -1e9)
half.bfloat16().masked_fill(mask, -1e9)
half.softmax(-1).masked_fill(mask, -1e9)
F.log_softmax(half, dim=-1).masked_fill(mask, -1e9)
half.sum(-1).masked_fill(mask, 1e9)
half.exp() * 1e9
half.norm(dim=-1) * 1e9
half ** 2 * 1e9
(1.0 / half) * 1e9
F.normalize(half) * 1e9
F.layer_norm(half, (4,)) * 1e9
F.cross_entropy(half, mask) * 1e9
half.softmax(-1, dtype=torch.float32) * 1e9
(1.0 - mask.float()) * -1e9
(1 - mask.long()) * -1e9
~mask * -1e9
x + 1e9
x * 1e9
x.clamp(max=1e6)
labels.masked_fill(mask, 100000)
torch.full((2, 2), -1e9)
torch.full((2, 2), -1e9).masked_fill(mask, 1e9)
torch.zeros(2, 2).masked_fill(mask, -1e9)
torch.tensor(-1e9)
half.item() * 1e9
half.size(0) * 1e9
half.shape[0] * 1e9
half > 1e9
half / 1e9
torch.nan_to_num(half, posinf=1e9)
half.argmax(-1) * 100000
(half > 0) * 1e9
torch.arange(5, device=x.device) * 1e9
half * torch.ones(4, 4) * 1e9
"""


@pytest.mark.parametrize("expression", OVERFLOWS.strip().splitlines())
def test_overflow(expression: str) -> None:
    check(in_region(f"out = {expression}  # AMP401"))


@pytest.mark.parametrize("expression", FITS.strip().splitlines())
def test_no_overflow(expression: str) -> None:
    check(in_region(f"out = {expression}"))


VANISHES = """
half / (half.amax() + 1e-8)
half / (1e-8 + half.abs())
torch.log(half.sigmoid() + 1e-12)
torch.sqrt(half.var(dim=0) + 1e-10)
half / half.std().clamp(min=1e-8)
half / half.mean().clamp_min(1e-12)
torch.clamp(half, 1e-8, 1.0)
half.add(1e-8)
half.std().add_(1e-8)
torch.log(torch.sigmoid(x) + 1e-8)
torch.rsqrt(x.half().square() + 1e-8) if False else half + 1e-8
"""
STAYS = """
half / (half.amax() + 1e-5)
half / (half.amax() + 1e-7)
half / (half.sum() + 1e-8)
half / (half.norm(dim=-1, keepdim=True) + 1e-12)
half / half.norm(dim=-1).clamp(min=1e-12)
torch.log(half.softmax(-1) + 1e-12)
torch.log(half.exp() + 1e-12)
torch.sqrt(half.pow(2) + 1e-12)
torch.sqrt(half ** 2 + 1e-12)
torch.sqrt(half.float() + 1e-12)
half / (half.float().std() + 1e-8)
half / (half.bfloat16().std() + 1e-8)
F.normalize(half, eps=1e-12)
F.layer_norm(half, (4,), eps=1e-12)
half / (mask.sum() + 1e-8)
half.sum() / (mask.bool().sum() + 1e-8)
1.0 / (half + 1e-7)
(x - x.mean()) / (x.std() + 1e-8)
half.item() + 1e-8
torch.optim.Adam([half], eps=1e-8)
half * 1e-8
torch.isclose(half, half, atol=1e-8)
((half != a) | (mask == 0)) + 1e-8
half.clamp(max=1e-8)
"""


@pytest.mark.parametrize("expression", VANISHES.strip().splitlines())
def test_epsilon_vanishes(expression: str) -> None:
    check(in_region(f"out = {expression}  # AMP402"))


@pytest.mark.parametrize("expression", STAYS.strip().splitlines())
def test_epsilon_stays(expression: str) -> None:
    check(in_region(f"out = {expression}"))


def test_outside_a_region_half_stays_half() -> None:
    check("""
        def run(x, mask):
            x = x.half()
            a = x.softmax(-1) + 1e-8  # AMP402
            b = F.normalize(x, dim=-1, eps=1e-12)  # AMP402
            c = 1.0 / (x + 1e-7)  # AMP402
            d = 1.0 / (x + 1e-4)
            e = 1e-2 / (x + 1e-6)
            f = 1.0 / x.clamp(min=1e-6)  # AMP402
            return a, b, c, d, e, f, x.sum() * 1e6  # AMP401
    """)


def test_cpu_autocast_lifts_less() -> None:
    check("""
        def run(a, b, mask):
            with torch.autocast("cpu", dtype=torch.float16):
                half = a @ b
                half.softmax(-1).masked_fill(mask, -1e9)  # AMP401
                half / (half.norm() + 1e-8)  # AMP402
                F.mse_loss(half, half) * 1e6
    """)


@pytest.mark.parametrize(
    "region",
    [
        'torch.autocast("cuda", dtype=torch.bfloat16)',
        'torch.autocast("cpu")',
        'torch.autocast("cuda", enabled=False)',
        "torch.no_grad()",
        "torch.cuda.amp.autocast(False)",
    ],
)
def test_no_float16_no_finding(region: str) -> None:
    check(f"""
        def run(x, mask, a, b):
            with {region}:
                scores = a @ b
                scores = scores.masked_fill(mask, -1e9) + 1e-8
                return scores.masked_fill(mask, -math.inf).softmax(-1), F.relu(x) * 1e6
    """)


def test_disabled_inside_a_region() -> None:
    check("""
        def run(x, mask, a, b):
            with torch.autocast("cuda"):
                half = a @ b
                with torch.autocast("cuda", enabled=False):
                    lifted = half.float().masked_fill(mask, -1e9) + 1e-8
                    half.masked_fill(mask, -1e9)  # AMP401
                    x.masked_fill(mask, -1e9)
                return lifted, half.masked_fill(mask, 1e9)  # AMP401
    """)


def test_region_around_a_call() -> None:
    check("""
        EPS = 1e-8  # AMP402

        def attend(q, k, mask):
            scores = q @ k
            return scores.masked_fill(mask, -1e9)  # AMP401

        def standardise(x):
            if x.dim() > 2:
                return x / (x.std() + EPS)
            return x.float() / (x.float().std() + EPS)

        def plain(q, k, mask):
            return (q @ k).masked_fill(mask, -1e9)

        def main(q, k, mask, linear):
            plain(q, k, mask)
            with torch.autocast("cuda"):
                attend(q, k, mask)
                standardise(q @ k)
    """)


def test_data_is_not_half() -> None:
    check("""
        def train(model, loader, device):
            for i, (x, y) in enumerate(loader):
                x = x.to(device, non_blocking=True)
                with torch.autocast("cuda"):
                    x = (x - torch.mean(x)) / (torch.std(x.view(4, -1)) + 1e-8)
                    x = x.masked_fill(y == 0, -1e9)
                    out = model(x)
                    p = torch.sigmoid(out)
                    loss = -torch.log(p + 1e-8) + out.masked_fill(y == 0, -1e9)  # AMP401 AMP402
    """)


def test_lists_of_layers() -> None:
    check("""
        import copy

        class Attention(nn.Module):
            def forward(self, q, k, mask):
                return (q @ k).masked_fill(mask, -1e9)  # AMP401

        class Other(nn.Module):
            def forward(self, x):
                return x.masked_fill(x > 0, 1e9)  # AMP401

        class Appended(nn.Module):
            def forward(self, x, mask):
                return torch.where(mask, x, 1e9)  # AMP401

        class Model(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.layers = nn.ModuleList([Attention() for _ in range(n)])
                self.first = nn.ModuleList(copy.deepcopy(Other()) for _ in range(n))
                self.chain = nn.Sequential(nn.Linear(4, 4), *[Other() for _ in range(n)], nn.Softmax(-1))
                self.more = nn.ModuleList()
                for _ in range(n):
                    self.more.append(Appended())

            def forward(self, x, mask):
                for i, layer in enumerate(self.layers):
                    x = layer(x, x, mask)
                for layer, other in zip(self.layers, self.first):
                    x = other(layer(x, x, mask))
                for layer in self.more:
                    x = layer(x, mask)
                return self.chain(x).masked_fill(mask, -1e9), self.layers[0](x, x, mask)

        with torch.autocast("cuda"):
            Model(3)(torch.rand(4), torch.rand(4) > 0.5)
    """)


def test_one_or_the_other() -> None:
    check("""
        def run(a, b, mask, flag):
            with torch.autocast("cuda"):
                scores = a @ b
                low = scores.masked_fill(mask, -math.inf) if mask is not None else scores  # AMP403
                other = scores.float() if flag else scores.softmax(-1)
                return low.softmax(-1), other * 1e9 + 1e-8
    """)


def test_half_leaves_the_region() -> None:
    check("""
        layer = nn.Linear(4, 4)

        def run(x, mask):
            with torch.autocast("cuda"):
                scores = layer(x)
            return scores.masked_fill(mask, -1e9)  # AMP401
    """)


def test_module_chains() -> None:
    check("""
        head = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        probabilities = nn.Sequential(nn.Linear(4, 4), nn.Softmax(dim=-1))
        embedding = nn.Embedding(4, 4)

        def run(x, i, mask):
            with torch.autocast("cuda"):
                a = head(x) * 1e6  # AMP401
                b = probabilities(x).masked_fill(mask, -1e9) + 1e-8
                c = embedding(i).masked_fill(mask, -1e9)
    """)


def test_dtype_parameters() -> None:
    check("""
        def causal(n, dtype):
            return torch.full((n, n), -1e9, dtype=dtype)  # AMP401

        def additive(mask, dtype):
            return (1.0 - mask.to(dtype)) * -1e9  # AMP401

        def chosen(n, dtype):
            low = -1e4 if dtype == torch.float16 else -1e9
            return torch.full((n, n), low, dtype=dtype)

        def wide(n, dtype):
            if dtype == torch.float32:
                return torch.full((n, n), -1e9, dtype=dtype)
            return torch.full((n, n), -1e4, dtype=dtype)

        class Buffers(nn.Module):
            def __init__(self, dtype=None):
                super().__init__()
                self.register_buffer("var", torch.ones(3, dtype=dtype))

            def forward(self, x):
                return x / (self.var + 1e-8)
    """)


def test_dtype_checks_are_understood() -> None:
    check("""
        def run(x, mask, a, b):
            with torch.autocast("cuda"):
                scores = a @ b
                if scores.dtype == torch.float16:
                    scores = scores.masked_fill(mask, -1e4)
                else:
                    scores = scores.masked_fill(mask, -1e9)
                return scores.masked_fill(mask, -1e9 if scores.dtype == torch.float32 else -1e4)
    """)


def test_a_configured_dtype_is_no_check() -> None:
    check("""
        def run(x, mask, dtype):
            scaler = torch.amp.GradScaler("cuda", enabled=(dtype == "float16"))
            with torch.autocast("cuda"):
                return x.masked_fill(mask, -1e9)  # AMP401

        def careful(x, mask):
            with torch.autocast("cuda"):
                low = -1e4 if torch.is_autocast_enabled() else -1e9
                return x.masked_fill(mask, -1e9 if x.dtype in (torch.float32, torch.bfloat16) else low)
    """)


def test_assignment_to_elements() -> None:
    check("""
        def run(x, mask, a, b):
            with torch.autocast("cuda"):
                scores = a @ b
                scores[mask] = -1e9  # AMP401
                scores[:, 0] = float(2**30)  # AMP401
                scores[mask] = -1e4
                counts = {}
                counts["large"] = 1e9
                x[mask] = -1e9
    """)


def test_infinity_assigned_to_elements() -> None:
    check("""
        def run(tokens, a, b, banned):
            with torch.autocast("cuda"):
                scores = a @ b
                scores[tokens == 0] = -math.inf  # AMP403
                weights = scores.softmax(-1)
                logits = a @ b
                logits[:, banned] = -math.inf
                logits[logits < logits.topk(4)[0][:, -1:]] = -math.inf
                return weights, logits.softmax(-1)
    """)


def test_additive_causal_masks() -> None:
    check("""
        def run(n, a, b):
            with torch.autocast("cuda"):
                scores = a @ b
                first = torch.empty(n, n, dtype=torch.float16)
                first.fill_(float("-inf"))
                first.triu_(1)
                second = torch.full((n, n), -math.inf, dtype=scores.dtype).triu(1)
                third = torch.zeros(n, n, dtype=torch.half).masked_fill(torch.ones(n, n).triu(1) == 1, -math.inf)
                return (scores + first).softmax(-1), (scores + second).softmax(-1), (scores + third).softmax(-1)
    """)


def test_small_divisors() -> None:
    check("""
        def run(x, y):
            x, y = x.half(), y.half()
            return (
                1.0 / (x + 1e-7),  # AMP402
                1.0 / (1e-6 + x),  # AMP402
                1e-3 / (x + 1e-7),
                y / (x + 1e-7),
                (x + 1e-7) / 1e5,
                0.0 / (x + 1e-7),
                1.0 / (x.float() + 1e-7),
            )
    """)


NAN = """
half.masked_fill(mask, -INF).softmax(dim=-1)
torch.softmax(half.masked_fill(mask == 0, -INF), dim=-1)
F.softmax(torch.where(mask, half, -INF), dim=-1)
F.log_softmax(half.masked_fill(~mask, -INF), dim=-1)
nn.Softmax(dim=-1)(half.masked_fill(mask, -INF))
(half.masked_fill(mask, -INF) / 2).softmax(-1)
x.masked_fill(mask, -INF).softmax(-1)
(1 - mask) * -INF
half * INF
mask.half() * -INF
half.masked_fill(torch.arange(5) >= x[:, None], -INF).softmax(-1)
half.masked_fill(torch.rand(5) > 0.5, -INF).softmax(-1)
"""
NO_NAN = """
half.masked_fill(mask, -INF)
half.masked_fill(mask, -INF).amax(-1)
half.masked_fill(mask, -INF).topk(3)
half.masked_fill(mask, -INF).clamp(min=-1e4).softmax(-1)
half.float().masked_fill(mask, -INF).softmax(-1)
half.masked_fill(torch.triu(torch.ones(4, 4), 1).bool(), -INF).softmax(-1)
half.masked_fill(~torch.tril(torch.ones(4, 4)).bool(), -INF).softmax(-1)
half.masked_fill(torch.ones(4, 4).tril() == 0, -INF).softmax(-1)
half.masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1).to(x.device)[None], -INF).softmax(-1)
half.masked_fill(1 - torch.ones(4, 4).tril(), -INF).softmax(-1)
half.masked_fill(torch.arange(4)[None] > torch.arange(4)[:, None], -INF).softmax(-1)
half.masked_fill(causal_mask, -INF).softmax(-1)
half.masked_fill(half < half.topk(3)[0][:, -1:], -INF).softmax(-1)
torch.nan_to_num(half.masked_fill(mask, -INF).softmax(-1))
half.masked_fill(mask, -INF).softmax(-1).masked_fill(mask, 0.0)
torch.ones(4, 4) * -INF
torch.triu(torch.ones(4, 4, dtype=torch.float16) * -INF, 1)
torch.full((4, 4), -INF, dtype=torch.float16)
half == INF
half - INF
min(1.0, INF)
"""


@pytest.mark.parametrize("expression", NAN.strip().splitlines())
def test_infinity_turns_into_nan(expression: str) -> None:
    check('INF = float("inf")\n' + in_region(f"out = {expression}  # AMP403"))


@pytest.mark.parametrize("expression", NO_NAN.strip().splitlines())
def test_infinity_is_fine(expression: str) -> None:
    check('INF = float("inf")\n' + in_region(f"out = {expression}"))


def test_infinity_across_statements() -> None:
    check("""
        class Attention(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.register_buffer("causal", torch.tril(torch.ones(size, size)).view(1, size, size))
                self.register_buffer("bias", torch.tril(torch.ones(size, size)).view(1, size, size))
                self.query = nn.Linear(4, 4)

            @torch.autocast("cuda")
            def forward(self, x, mask=None, padding=None):
                scores = self.query(x) @ self.query(x).mT
                scores = scores.masked_fill(self.bias[:, : x.size(1)] == 0, -math.inf)
                if mask is not None:
                    scores = scores.masked_fill(mask == 0, -math.inf)  # AMP403
                return F.softmax(scores, dim=-1)

            @torch.autocast("cuda")
            def in_place(self, x, padding):
                scores = self.query(x) @ self.query(x).mT
                scores.masked_fill_(padding, float("-inf"))  # AMP403
                scores = scores - scores.max(dim=-1, keepdim=True).values
                return scores.softmax(-1)
    """)


BCE = """
F.binary_cross_entropy(p, y)  # AMP404
F.binary_cross_entropy(p.float(), y.float())  # AMP404
torch.nn.functional.binary_cross_entropy(torch.sigmoid(p), y)  # AMP404
nn.BCELoss()(p, y)  # AMP404
F.binary_cross_entropy_with_logits(p, y)
nn.BCEWithLogitsLoss()(p, y)
"""


@pytest.mark.parametrize("line", BCE.strip().splitlines())
@pytest.mark.parametrize(
    ("region", "banned"),
    [
        ('torch.autocast("cuda")', True),
        ('torch.autocast("cuda", dtype=torch.bfloat16)', True),
        ('torch.autocast("cuda", enabled=use_amp)', True),
        ("torch.cuda.amp.autocast()", True),
        ('torch.autocast("xpu")', True),
        ('torch.autocast("cpu")', False),
        ("torch.autocast(device)", False),
        ('torch.autocast("cuda", enabled=False)', False),
        ("torch.no_grad()", False),
    ],
)
def test_binary_cross_entropy(line: str, region: str, banned: bool) -> None:
    loss = line if banned else line.partition("#")[0]
    check(f"def run(p, y, device, use_amp):\n    with {region}:\n        loss = {loss}\n")


def test_binary_cross_entropy_modules() -> None:
    check("""
        criterion = nn.BCELoss()

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.loss = nn.BCELoss(reduction="sum")

            def forward(self, x, y):
                return self.loss(x, y)  # AMP404

        def train(loader, model, loss_function):
            for x, y in loader:
                with torch.autocast("cuda"):
                    p = torch.sigmoid(model(x))
                    loss = criterion(p, y)  # AMP404
                    other = loss_function(p, y)
                    with torch.autocast("cuda", enabled=False):
                        plain = criterion(p.float(), y)
                after = criterion(p.float(), y)

        with torch.autocast("cuda"):
            Net()(torch.rand(2), torch.rand(2))
    """)


FIXES = [
    ("scores.masked_fill(mask, -1e9)", "scores.masked_fill(mask, torch.finfo(scores.dtype).min)"),
    ("torch.where(mask, scores, 1e9)", "torch.where(mask, scores, torch.finfo(scores.dtype).max)"),
    ("torch.where(mask, -1e9, scores)", "torch.where(mask, torch.finfo(scores.dtype).min, scores)"),
    ("(1.0 - scores) * -1e9", "(1.0 - scores) * torch.finfo(scores.dtype).min"),
    ("torch.full((4,), -1e9, dtype=torch.half)", "torch.full((4,), torch.finfo(torch.half).min, dtype=torch.half)"),
    ("torch.full_like(scores, -1e9)", "torch.full_like(scores, torch.finfo(scores.dtype).min)"),
    ("scores * 1e6", None),
    ("scores + 1e6", None),
    ("scores.clamp(max=1e6)", None),
    ("(a @ b).masked_fill(mask, -1e9)", None),
    ("scores.amax() + 1e-8", "scores.amax() + 1e-4"),
    ("scores.clamp(min=1e-12)", "scores.clamp(min=1e-4)"),
    (
        "scores.masked_fill(mask, -math.inf).softmax(-1)",
        "scores.masked_fill(mask, torch.finfo(scores.dtype).min).softmax(-1)",
    ),
    ("(1 - scores) * -math.inf", "(1 - scores) * torch.finfo(scores.dtype).min"),
    ("F.binary_cross_entropy(torch.sigmoid(scores), mask)", "F.binary_cross_entropy_with_logits(scores, mask)"),
    ("F.binary_cross_entropy(scores.sigmoid(), mask)", "F.binary_cross_entropy_with_logits(scores, mask)"),
    ("F.binary_cross_entropy(scores, model(mask))", None),
    ("nn.BCELoss()(F.sigmoid(scores), mask)", "nn.BCEWithLogitsLoss()(scores, mask)"),
]


def fixed(code: str) -> str | None:
    """`code` with the edits of its one finding, None when that has no fix."""
    (finding,) = lint(code)
    if finding.fix is None:
        return None
    begins = [0, *itertools.accumulate(map(len, code.splitlines(keepends=True)))]
    for edit in sorted(finding.fix.edits, key=lambda edit: edit.span, reverse=True):
        start, end = (begins[place.row - 1] + place.column - 1 for place in (edit.span.start, edit.span.end))
        code = code[:start] + edit.content + code[end:]
    return code


@pytest.mark.parametrize(("before", "after"), FIXES)
def test_fix(before: str, after: str | None) -> None:
    program = f"{HEADER}def run(mask, a, b):\n    {REGION}\n        scores = a @ b\n        out = %s\n"
    assert fixed(program % before) == (program % after if after is not None else None)


def test_fix_of_assigned_probabilities() -> None:
    program = f"""{HEADER}def run(model, x, y):
    {REGION}
        %s = %s
        loss = %s
    return loss
"""
    before = program % ("p", "torch.sigmoid(model(x))", "F.binary_cross_entropy(p, y)")
    assert fixed(before) == program % ("logits", "model(x)", "F.binary_cross_entropy_with_logits(logits, y)")
    used_again = before.replace("return loss", "return loss, p > 0.5")
    repaired = before.replace("torch.sigmoid(model(x))", "model(x)").replace("entropy(p", "entropy_with_logits(p")
    assert fixed(used_again) == repaired.replace("return loss", "return loss, torch.sigmoid(p.float()) > 0.5")
    kept = used_again.replace("model(x)", "x")
    assert fixed(kept) == kept.replace("F.binary_cross_entropy(p, y)", "F.binary_cross_entropy_with_logits(x, y)")


def test_fix_where_the_sigmoid_is_inside_a_model() -> None:
    program = f"""{HEADER}model = nn.Sequential(nn.Linear(4, 1)%s)
{REGION}
    p = model(torch.rand(4))
    loss = %s
"""
    repaired = program % ("", "F.binary_cross_entropy_with_logits(p, torch.sigmoid(p.float()))")
    assert fixed(program % (", nn.Sigmoid()", "F.binary_cross_entropy(p, p)")) == repaired


def test_notes_tell_where_float16_begins() -> None:
    (finding,) = lint(HEADER + in_region("out = x.masked_fill(mask, -1e9)"))
    assert [note.message for note in finding.notes] == ["the float16 autocast region begins here"]
    (finding,) = lint(HEADER + in_region("out = half.masked_fill(mask, -1e9)"))
    (note,) = finding.notes
    assert (note.message, note.span.start.row) == ("the tensor is float16 from here on", 11)


ON_THE_CPU = """
    product = half.float().cpu() @ half.cpu().float()
    product.masked_fill_(mask, -1e9)
    torch.ones(4, device="cpu").fill_(1e6)
"""


def test_regions_do_not_reach_other_devices() -> None:
    check(in_region(ON_THE_CPU))


NOTHING_TELLS = """
MASK = -1e7  # AMP401

class RMSNorm(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(torch.mean(x * x, dim=-1, keepdim=True))  # AMP405

class L2Norm(nn.Module):
    def forward(self, x):
        norm = x.pow(2).sum(1, keepdim=True).sqrt() + 1e-4  # AMP405
        return self.weight[None, :, None, None] * x / norm

class Probabilities(nn.Module):
    def __init__(self):
        self.loss = nn.BCELoss()  # AMP404

    def forward(self, x, y):
        return self.loss(x, y)

class Lifted(nn.Module):
    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-8)

def attend(scores, mask):
    return scores.masked_fill(mask, MASK).softmax(-1)

def added(mask: torch.Tensor, scores):
    scores = scores * 1e9 - 1e9
    return scores + (1.0 - mask) * -1e9  # AMP401

def chosen_logits(logits, action_masks, kept, scale):
    scaled = (1.0 - scale) * 1e10
    logits = logits - (1.0 - action_masks) * 1e10  # AMP401
    return logits - 1e10 * (1 - kept.float()), scaled

def labels(image: torch.Tensor):
    n, _, h, w = image.shape
    kept = torch.arange(n * h * w, device=image.device, dtype=image.dtype)  # AMP406
    few = torch.arange(10, dtype=image.dtype)
    return kept, few, torch.arange(n * h * w, dtype=torch.float32).to(image.dtype), torch.arange(n).to(image.device)

def ratio(signal, noise):
    return torch.mean(signal) / (torch.mean(noise) + 1e-8)  # AMP402

class LayerNorm(nn.Module):
    def __init__(self, eps=1e-12):  # AMP402
        super().__init__()
        self.eps = eps

    def forward(self, x):
        std = x.std(-1, keepdim=True)
        return (x - x.mean(-1, keepdim=True)) / (std + self.eps)

def entropy(p, q: torch.Tensor, count, eps=1e-10):  # AMP402
    count = count / (count + 1e-8)
    log = -(p * torch.log(p + eps)).sum(dim=-1)
    return log / (q + 1e-8)  # AMP402

def guarded(p, q: torch.Tensor, eps=1e-10):
    p = torch.log(p + max(eps, torch.finfo(p.dtype).tiny))
    return p / (q.float() + 1e-8)

def chosen(q: torch.Tensor):
    eps = 1e-8 if q.dtype == torch.float32 else 1e-4
    return q / (q.std() + eps)

def loss(probabilities, target):
    with torch.autocast("cuda", enabled=False):
        F.binary_cross_entropy(probabilities, target)
    return F.binary_cross_entropy(probabilities, target)  # AMP404

def project(points, camera):
    basis, values, _ = torch.linalg.svd(points.float())
    left = torch.linalg.solve(basis, values) @ torch.linalg.inv(camera.to(torch.float32))
    return left @ torch.inverse(camera) @ points.cholesky()  # AMP503

def unproject(pose, intrinsics: Tensor):
    return pose.inverse(), intrinsics.inverse(), intrinsics.float().inverse().det()  # AMP503

class Fourier(nn.Module):
    def forward(self, x):
        spectrum = torch.fft.rfft2(x)  # AMP503
        return torch.fft.irfft2(spectrum * 2)

def sound(wave):
    return torch.fft.rfft(wave)

def alike(a, b):
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))  # AMP405

def alike_in_float32(a, b):
    return a.float().norm(dim=-1) * b.float().norm(dim=-1)

def scores(query, key, scale):
    attention = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(64)  # AMP405
    return attention, query.mul(0.125) @ key.transpose(-2, -1), (query.float() @ key.float().transpose(-2, -1)) / 8

def gram(features):
    count, channels, height, width = features.size()
    rows = features.view(count, channels, height * width)
    return torch.bmm(rows, rows.transpose(1, 2)) / (channels * height * width)  # AMP405

def similar(rows, share, ways):
    return torch.mm(rows, rows.t()) / 0.07, torch.mm(rows, rows.t()) / (share * ways)

class Assigned(nn.Module):
    def forward(self, similarity, mask, table):
        similarity[~mask] = -1e9  # AMP401
        similarity.fill_diagonal_(-1e12)  # AMP401
        table[mask] = -1e9
        return similarity.softmax(dim=-1), table

class Tried(nn.Module):
    def forward(self, x):
        return torch.linalg.pinv(x)  # AMP503

def _test_tried():
    Tried()(torch.rand(4, 4))

if __name__ == "__main__":
    Tried()(torch.rand(4, 4))
    _test_tried()
"""


def test_tensors_of_which_nothing_tells_the_dtype() -> None:
    code = HEADER + NOTHING_TELLS
    told_anyway = ("AMP104", "AMP106")
    rules = tuple(rule for rule in load_registry().rules.values() if rule.assumed and rule.code not in told_anyway)
    asked = frozenset(rule.code for rule in rules)
    said = findings_of(code, rules, asked=asked)
    expected = {(row, line.partition("  # ")[2]) for row, line in enumerate(code.splitlines(), 1) if "  # AMP" in line}
    assert {(finding.span.start.row, finding.code) for finding in said} == expected
    assert {finding.severity for finding in said} == {Severity.INFO}
    assert not findings_of(code, rules)
    assert {rule for _, rule in expected} <= {rule.code for rule in screen(rules, code.encode(), asked)}


LOSSES_OF_OUTPUTS = """
import k2
from losses import criterion, compute_loss, loss_history

def epoch(model, batches):
    for images, targets in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            logits, lengths = model(images)
            criterion(logits.float(), targets)
            criterion(targets, lengths.long())
            lattice = k2.DenseFsaVec(logits, targets)
            loss = k2.ctc_loss(lattice, targets)  # AMP408
            loss_history(logits)
        return loss + F.cross_entropy(logits, targets)  # AMP408

def validate(model, batches, half):
    if half:
        model.half()
    for images, targets in batches:
        inference, outputs = model(images.half() if half else images)
        compute_loss(outputs, targets, model)  # AMP408
        compute_loss([x.float() for x in outputs], targets, model)
        F.mse_loss(inference[0].float(), targets)

def plain(model, images, targets):
    return criterion(model(images), targets) + F.mse_loss(model(images), targets)
"""


def test_losses_of_what_a_model_returned_in_half() -> None:
    code = HEADER + LOSSES_OF_OUTPUTS
    rules = (load_registry().rules["AMP408"],)
    said = findings_of(code, rules, asked=frozenset({"AMP408"}))
    expected = [row for row, line in enumerate(code.splitlines(), 1) if "  # AMP408" in line]
    assert [finding.span.start.row for finding in said] == expected
    (left,) = findings_of(code, rules)
    assert code.splitlines()[left.span.start.row - 1].strip().startswith("return loss + F.cross_entropy")
