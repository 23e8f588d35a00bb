"""Dtypes that meet in code whose half precision is chosen elsewhere: what is reported to those who ask for it."""

from __future__ import annotations

import textwrap

import pytest
import torch

from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of

CODES = ("AMP104", "AMP401", "AMP406", "AMP407", "AMP408", "AMP502", "AMP504")
RULES = tuple(load_registry().rules[code] for code in CODES)
HEADER = """\
import torch
import torch.nn.functional as F
from torch import nn


"""


def found(program: str) -> set[tuple[int, str]]:
    """The lines of `program` that are reported, each with the code; all of it infos."""
    code = HEADER + textwrap.dedent(program).lstrip("\n")
    findings = findings_of(code, RULES, asked=frozenset(CODES))
    assert all(finding.severity is Severity.INFO for finding in findings)
    return {(finding.span.start.row - HEADER.count("\n"), finding.code) for finding in findings}


PROGRAMS = {
    "products in a disabled region": """
        class Distances(nn.Module):
            def __init__(self):
                super().__init__()
                self.project = nn.Linear(8, 8)

            def forward(self, x, y):
                a, b = self.project(x), self.project(y)
                with torch.autocast("cuda", enabled=False):
                    return torch.einsum("nd,md->nm", a, b)  # AMP104

            def converted(self, x, y):
                a, b = self.project(x).float(), self.project(y)
                with torch.autocast("cuda", enabled=False):
                    return torch.einsum("nd,md->nm", a, b.float())
    """,
    "a decorator that disables autocast": """
        class Distances(nn.Module):
            def __init__(self):
                super().__init__()
                self.project = nn.Linear(8, 8)

            @torch.autocast("cuda", enabled=False)
            def between(self, a, b):
                return a @ b.t()  # AMP104

            def forward(self, x):
                features = self.project(x)
                return self.between(features, features)
    """,
    "the largest of each row": """
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.classify = nn.Linear(8, 4)

            def forward(self, x, rows):
                best, which = self.classify(x).max(dim=1)
                table = torch.zeros(16, device=x.device)
                table[rows > 2] = best  # AMP502
                kinds = torch.zeros(16, device=x.device, dtype=torch.int64)
                kinds[rows > 2] = which
                return table, kinds

            def others(self, x, rows):
                found = {}
                found["scores"] = self.classify(x)
                table = torch.zeros(16, device=x.device)
                table[rows > 2] = torch.min(found["scores"], dim=1)[0]  # AMP502
                table[rows > 2] = torch.min(found["scores"], dim=1).values.float()
                return table
    """,
    "a cache": """
        class Chosen(nn.Module):
            def __init__(self, size, dtype=torch.float32):
                super().__init__()
                self.register_buffer("keys", torch.zeros(size, 8, dtype=dtype))

            def update(self, input_pos, new: torch.Tensor):
                self.keys[input_pos] = new  # AMP502

        class Plain(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.register_buffer("keys", torch.zeros(size, 8))

            def update(self, positions, new: torch.Tensor):
                self.keys[positions] = new  # AMP502

            def converted(self, positions, new: torch.Tensor):
                self.keys[positions] = new.to(self.keys.dtype)

            def at(self, start_pos, new: torch.Tensor):
                self.keys[start_pos] = new
    """,
    "limits of another tensor": """
        def mine(embeddings, same):
            scores = embeddings @ embeddings.t()
            low = torch.finfo(embeddings.dtype).min
            return scores.masked_fill(same, low)  # AMP401

        def farthest(embeddings, same):
            scores = torch.mm(embeddings, embeddings.t())
            scores[same] = -torch.finfo(embeddings.dtype).max  # AMP401
            return torch.where(same, torch.finfo(embeddings.dtype).max / 2, scores)  # AMP401

        def own(embeddings, same):
            scores = embeddings @ embeddings.t()
            return scores.masked_fill(same, torch.finfo(scores.dtype).min)

        def of_queries(query, key, same):
            scores = query @ key.t()
            return scores.masked_fill(same, torch.finfo(query.dtype).min)

        def converted(embeddings, same):
            scores = (embeddings @ embeddings.t()).float()
            return scores.masked_fill(same, torch.finfo(embeddings.dtype).min)
    """,
    "quotients of counts": """
        def shares(labels, size, dtype):
            weights = torch.ones(size, dtype=dtype)
            values, counts = torch.unique(labels, return_counts=True)
            weights[values] = counts / counts.sum()  # AMP502
            weights[values] = (counts / counts.sum()).to(dtype)
            weights[2:4] = counts / 2
            return weights

        def spread(x, mask):
            places = torch.zeros(10, dtype=x.dtype)
            shares = torch.arange(mask.shape[0]) / mask.shape[0]
            places[mask > 0] = shares[mask > 0]  # AMP502
            places[mask > 0] = torch.bincount(mask) / 10  # AMP502
            places[mask > 0] = torch.bincount(mask) / x.sum()  # AMP502
            places[mask > 0] = torch.bincount(mask) / x.mean(dtype=x.dtype)
            return places
    """,
    "one-hot rows and the weight of a layer": """
        class Codes(nn.Module):
            def __init__(self, count, width):
                super().__init__()
                self.embed = nn.Embedding(count, width)

            def forward(self, which):
                chosen = F.one_hot(which, 16).float()
                return chosen @ self.embed.weight  # AMP502

            def without_sums(self, which):
                chosen = F.one_hot(which, 16).float()
                return torch.einsum("ni,jd->nijd", chosen, self.embed.weight)

            def converted(self, which):
                chosen = F.one_hot(which, 16).to(self.embed.weight.dtype)
                return chosen @ self.embed.weight
    """,
    "an input in a dtype that is chosen": """
        class Sampler:
            def __init__(self, dtype, device):
                self.dtype, self.device = dtype, device

            def blur(self, image):
                image = image.to(device=self.device, dtype=self.dtype)
                kernel = nn.Conv2d(3, 3, 3, groups=3).to(self.device)  # AMP502
                return kernel(image)

            def converted(self, image):
                image = image.to(device=self.device, dtype=self.dtype)
                kernel = nn.Conv2d(3, 3, 3, groups=3).to(self.device, self.dtype)
                return kernel(image)

            def alike(self, image):
                image = image.to(device=self.device, dtype=self.dtype)
                return nn.Conv2d(3, 3, 3, groups=3).to(image)(image)
    """,
    "what a loader gives": """
        def plain(loader):
            net = nn.Linear(3, 4).cuda().half()
            for x, _ in loader:
                net(x.cuda())  # AMP502

        def converted(loader, dtype):
            net = nn.Linear(3, 4).cuda().half()
            for x, _ in loader:
                net(x.cuda().half())
                net(x.to("cuda", dtype=dtype))
    """,
    "entries of a batch, and encoders": """
        def encode(args, vae, loader):
            weight_dtype = torch.float32
            if args.mixed_precision == "fp16":
                weight_dtype = torch.float16
            vae.to("cuda", dtype=weight_dtype)
            for batch in loader:
                yield vae.encode(batch["pixel_values"])  # AMP502

        def encode_converted(args, vae, loader):
            weight_dtype = torch.float32
            if args.mixed_precision == "fp16":
                weight_dtype = torch.float16
            vae.to("cuda", dtype=weight_dtype)
            for batch in loader:
                yield vae.encode(batch["pixel_values"].to(weight_dtype))
    """,
    "norm layers in front of another library's attention": """
        from flash_attn import flash_attn_func

        class Attention(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.qkv = nn.Linear(width, 3 * width)
                self.q_norm = nn.LayerNorm(8)
                self.k_norm = nn.LayerNorm(8)

            def forward(self, x):
                q, k, v = self.qkv(x).reshape(2, 16, 3, 4, 8).unbind(2)
                return flash_attn_func(self.q_norm(q), self.k_norm(k), v)  # AMP502

            def converted(self, x):
                q, k, v = self.qkv(x).reshape(2, 16, 3, 4, 8).unbind(2)
                return flash_attn_func(self.q_norm(q).to(v.dtype), self.k_norm(k).to(v.dtype), v)
    """,
    "sums of gradients in a custom backward pass": """
        class Gate(torch.autograd.Function):
            @staticmethod
            def backward(ctx, grad):
                x, gate, scale = ctx.saved_tensors
                share = grad * x
                running = share.flip(-2).cumsum(-2)  # AMP407
                total = (grad * gate).sum()  # AMP407
                return share, running.flip(-2), total.to(scale)

        class Widened(torch.autograd.Function):
            @staticmethod
            def backward(ctx, grad):
                x, scale = ctx.saved_tensors
                share = grad.float() * x
                return share.cumsum(-1).to(x), share.sum().to(scale)
    """,
    "tables in the dtype of an argument": """
        import math

        def table(size, width, dtype=None):
            places = torch.arange(size, dtype=dtype)  # AMP406
            rates = torch.exp(torch.arange(0, width, 2, dtype=dtype) * -(math.log(10000.0) / width))
            angles = places[:, None] * rates
            return torch.cat([angles.sin(), angles.cos()], dim=-1)

        def wide(size, width, dtype=None):
            places = torch.arange(size, dtype=torch.float32)
            rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * -(math.log(10000.0) / width))
            angles = places[:, None] * rates
            return torch.cat([angles.sin(), angles.cos()], dim=-1).to(dtype)
    """,
    "losses of what a region in another method returned": """
        class Trainer:
            def __init__(self, model, amp):
                self.model, self.amp = model, amp

            def embed(self, x):
                with torch.autocast("cuda", enabled=self.amp):
                    return self.model(x)

            def step(self, x, y, labels):
                scores = self.embed(x) @ self.embed(y).t() / 0.07
                return F.cross_entropy(scores, labels)  # AMP408

            def parts(self, batches, labels):
                rows = torch.cat([self.embed(batch) for batch in batches])
                return F.cross_entropy(rows, labels)  # AMP408

            def converted(self, x, y, labels):
                scores = self.embed(x) @ self.embed(y).t()
                return F.cross_entropy(scores.float(), labels)
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_found(name: str) -> None:
    lines = textwrap.dedent(PROGRAMS[name]).lstrip("\n").splitlines()
    expected = {(row, line.split("# ")[1]) for row, line in enumerate(lines) if "  # AMP" in line}
    assert {(row - 1, code) for row, code in found(PROGRAMS[name])} == expected


NUMBERS = {
    "an entry of a shape": "x / x.shape[-1] ** 0.5",
    "an unpacked shape": "x / width",
    "a size": "x / x.size(-1)",
    "a default": "x * scale",
    "an annotation": "x * factor",
    "the end of a range": "x / count",
}


@pytest.mark.parametrize("expression", NUMBERS.values(), ids=NUMBERS)
def test_numbers_keep_the_dtype(expression: str) -> None:
    program = f"""
        def inverse(x, count, factor: float, scale=0.1):
            x = x.half()
            rows, width = x.shape
            for _ in range(count):
                print(rows)
            return torch.linalg.inv({expression})
    """
    code = HEADER + textwrap.dedent(program).lstrip("\n")
    rule = load_registry().rules["AMP503"]
    (finding,) = findings_of(code, (rule,))
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_what_pytorch_does(half: torch.dtype) -> None:
    mask = torch.tensor([True, False, True])
    with pytest.raises(RuntimeError, match="dtype"):
        torch.zeros(3)[mask] = torch.ones(2, dtype=half)
    with pytest.raises(RuntimeError, match="dtype"):
        torch.zeros(3, dtype=half)[mask] = torch.tensor([1, 3]) / 2
    with pytest.raises(RuntimeError, match="dtype"):
        torch.nn.Linear(2, 2, dtype=half)(torch.ones(1, 2))
    with torch.autocast("cpu", dtype=half):
        x = torch.ones(2, 2)
        product = x @ x
        assert product.dtype is half
        with torch.autocast("cpu", enabled=False):
            assert (product @ product).dtype is half
    assert (torch.ones(4096, dtype=half).cumsum(0) != torch.ones(4096).cumsum(0)).any()
    assert torch.arange(3000, dtype=torch.float32).to(half).unique().numel() < 3000


def test_a_limit_of_float32_does_not_fit_float16() -> None:
    scores = torch.ones(2, 2, dtype=torch.float16)
    with pytest.raises(RuntimeError, match="overflow"):
        scores.masked_fill(torch.eye(2, dtype=torch.bool), torch.finfo(torch.float32).min)
