"""Tensors that stay float32 beside half ones: each program is linted, and run on PyTorch in bfloat16."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import torch

from tests.test_dtypes_met import HEADER, found

PROGRAMS = {
    "counts of segments in a product of matrices": """
        def pool(hidden, segments):
            assigned = F.one_hot(segments, 2).float()
            return torch.bmm(assigned.transpose(1, 2), hidden)  # AMP502

        def converted(hidden, segments):
            assigned = F.one_hot(segments, 2).float()
            return torch.bmm(assigned.transpose(1, 2).to(hidden.dtype), hidden)

        GIVEN = torch.rand(1, 3, 4).bfloat16(), torch.tensor([[0, 1, 1]])
        bad, good = lambda: pool(*GIVEN), lambda: converted(*GIVEN)
    """,
    "queries and keys of an attention, converted by an option": """
        def attend(q, k, v, upcast):
            if upcast:
                q, k = q.float(), k.float()  # AMP502
            return F.scaled_dot_product_attention(q, k, v)

        def alike(q, k, v, upcast):
            if upcast:
                q, k, v = q.float(), k.float(), v.float()
            return F.scaled_dot_product_attention(q, k, v)

        def values_too(q, k, v, upcast):
            if upcast:
                q, k = q.float(), k.float()
            if upcast:
                v = v.float()
            return F.scaled_dot_product_attention(q, k, v)

        def like_queries(q, k, v, upcast):
            if upcast:
                q, k = q.float(), k.float()
            v = v.to(q.dtype)
            return F.scaled_dot_product_attention(q, k, v)

        GIVEN = *(torch.rand(1, 2, 3, 4).bfloat16() for _ in range(3)), True
        bad, good = lambda: attend(*GIVEN), lambda: [f(*GIVEN) for f in (alike, values_too, like_queries)]
    """,
    "a factor converted by an option": """
        def scores(q, k, upcast):
            if upcast:
                q = q.float()  # AMP502
            return q @ k

        def like_queries(q, k, upcast):
            if upcast:
                q = q.float()
            k = k.to(q.dtype)
            return q @ k

        GIVEN = *(torch.rand(2, 4, 4).bfloat16() for _ in range(2)), True
        bad, good = lambda: scores(*GIVEN), lambda: like_queries(*GIVEN)
    """,
    "what is made for the weight of a layer": """
        class Quantizer(nn.Module):
            def __init__(self, codes, width):
                super().__init__()
                self.codes = codes
                self.codebook = nn.Embedding(codes, width)

            def forward(self, index):
                chosen = torch.zeros(len(index), self.codes, device=index.device)
                chosen.scatter_(1, index[:, None], 1)
                return torch.matmul(chosen, self.codebook.weight)  # AMP502

            def converted(self, index):
                chosen = torch.zeros(len(index), self.codes, device=index.device, dtype=self.codebook.weight.dtype)
                chosen.scatter_(1, index[:, None], 1)
                return torch.matmul(chosen, self.codebook.weight)

        model = Quantizer(4, 4).bfloat16()
        bad, good = lambda: model(torch.arange(3)), lambda: model.converted(torch.arange(3))
    """,
    "a tensor in a plain attribute": """
        class Normed(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(width, width))
                self.left = torch.randn(width)
                self.register_buffer("right", torch.randn(width))

            def forward(self, x):
                sigma = torch.mv(self.weight.t(), self.left.to(x.device)).norm()  # AMP502
                return F.linear(x, self.weight / sigma)

            def buffered(self, x):
                sigma = torch.mv(self.weight.t(), self.right).norm()
                return F.linear(x, self.weight / sigma)

        model, x = Normed(4).bfloat16(), torch.rand(1, 4).bfloat16()
        bad, good = lambda: model(x), lambda: model.buffered(x)
    """,
    "results of a model that runs in a bfloat16 region": """
        def extract(model, batches, bank):
            bank = torch.zeros(4, 4)
            for batch, index in batches:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    features = model(batch)
                bank.index_copy_(0, index, features)  # AMP502
            return bank

        def compared(model, batch, keys):
            keys = torch.randn(8, 4)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                features = model(batch)
            features = F.normalize(features, dim=-1)
            return features @ keys.t()  # AMP502

        def converted(model, batch, keys):
            keys = torch.randn(8, 4)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                features = model(batch)
            return F.normalize(features.float(), dim=-1) @ keys.t()

        model = nn.Linear(4, 4)
        bad = lambda: extract(model, [(torch.rand(2, 4), torch.arange(2))], None)
        good = lambda: converted(model, torch.rand(2, 4), None)
    """,
    "a norm that a subclass computes in float32": """
        class Norm(nn.LayerNorm):
            def forward(self, x):
                return F.layer_norm(x.float(), self.normalized_shape, self.weight.float(), self.bias.float())  # AMP502

        class Returned(nn.LayerNorm):
            def forward(self, x):
                normed = F.layer_norm(x.float(), self.normalized_shape, self.weight.float(), self.bias.float())
                return normed.to(x.dtype)

        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.norm = Norm(width)
                self.dense = nn.Linear(width, width)

            def forward(self, x):
                return self.dense(self.norm(x))

        class Converted(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.norm = Returned(width)
                self.dense = nn.Linear(width, width)

            def forward(self, x):
                return self.dense(self.norm(x))

        x = torch.rand(1, 4).bfloat16()
        bad, good = lambda: Block(4).bfloat16()(x), lambda: Converted(4).bfloat16()(x)
    """,
    "a converted tensor joined with the input": """
        class Queries(nn.Module):
            def __init__(self, width, queries):
                super().__init__()
                self.register_buffer("places", torch.randn(queries, width))
                self.dense = nn.Linear(width, width)

            def forward(self, x):
                places = self.places.float().repeat(x.shape[0], 1, 1)  # AMP502
                return self.dense(torch.cat([x, places], dim=1))

            def kept(self, x):
                places = self.places.repeat(x.shape[0], 1, 1)
                return self.dense(torch.cat([x, places], dim=1))

        model, x = Queries(4, 2).bfloat16(), torch.rand(1, 3, 4).bfloat16()
        bad, good = lambda: model(x), lambda: model.kept(x)
    """,
    "the weights of experts": """
        class Experts(nn.Module):
            def __init__(self, width, count):
                super().__init__()
                self.gate = nn.Linear(width, count)
                self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

            def forward(self, x):
                shares, index = F.softmax(self.gate(x), dim=-1, dtype=torch.float).max(dim=-1)
                out = torch.zeros_like(x)
                for i, expert in enumerate(self.experts):
                    rows = torch.where(index == i)[0]
                    out.index_add_(0, rows, expert(x[rows]) * shares[rows, None])  # AMP502
                return out

            def converted(self, x):
                shares, index = F.softmax(self.gate(x), dim=-1, dtype=torch.float).max(dim=-1)
                shares, out = shares.to(x.dtype), torch.zeros_like(x)
                for i, expert in enumerate(self.experts):
                    rows = torch.where(index == i)[0]
                    out.index_add_(0, rows, expert(x[rows]) * shares[rows, None])
                return out

        model, x = Experts(4, 2).bfloat16(), torch.rand(6, 4).bfloat16()
        bad, good = lambda: model(x), lambda: model.converted(x)
    """,
    "a mask that a helper makes for a layer of attention": """
        def causal(steps, device):
            return torch.triu(torch.full((steps, steps), float("-inf"), device=device), diagonal=1)

        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.attention = nn.MultiheadAttention(width, 1, batch_first=True)

            def forward(self, x):
                mask = causal(x.shape[1], x.device)
                return self.attention(x, x, x, attn_mask=mask)[0]  # AMP502

            def converted(self, x):
                mask = causal(x.shape[1], x.device).to(x.dtype)
                return self.attention(x, x, x, attn_mask=mask)[0]

            def of_booleans(self, x):
                mask = causal(x.shape[1], x.device) < 0
                return self.attention(x, x, x, attn_mask=mask)[0]

        model, x = Block(4).bfloat16(), torch.rand(1, 3, 4).bfloat16()
        bad, good = lambda: model(x), lambda: (model.converted(x), model.of_booleans(x))
    """,
    "a cast between two layers": """
        class Steps(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

            def forward(self, x):
                mixed = F.softmax(self.first(x).float(), dim=-1)  # AMP502
                return self.second(mixed)

            def back(self, x):
                mixed = F.softmax(self.first(x).float(), dim=-1)
                return self.second(mixed.to(x.dtype))

            def apart(self, x):
                mixed = self.first(x)
                with torch.autocast("cpu", enabled=False):
                    return self.second(mixed.float())

        model, x = Steps(4).bfloat16(), torch.rand(1, 4).bfloat16()
        bad, good = lambda: model(x), lambda: model.back(x)
    """,
    "layers in the size of one that is given": """
        class Adapted(nn.Module):
            def __init__(self, linear, rank=2):
                super().__init__()
                self.linear = linear
                self.down = nn.Linear(linear.in_features, rank, bias=False)  # AMP504
                self.up = nn.Linear(rank, linear.out_features, bias=False)  # AMP504

            def forward(self, x):
                return self.linear(x) + self.up(self.down(x))

        class Converted(nn.Module):
            def __init__(self, linear, rank=2):
                super().__init__()
                self.linear, like = linear, {"dtype": linear.weight.dtype}
                self.down = nn.Linear(linear.in_features, rank, bias=False, **like)
                self.up = nn.Linear(rank, linear.out_features, bias=False, **like)

            def forward(self, x):
                return self.linear(x) + self.up(self.down(x))

        linear, x = nn.Linear(4, 4).bfloat16(), torch.rand(1, 4).bfloat16()
        bad, good = lambda: Adapted(linear)(x), lambda: Converted(linear)(x)
    """,
    "positions that NumPy computes": """
        import numpy as np

        class Positions(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.width = width
                self.dense = nn.Linear(width, width)

            def forward(self, x):
                places = torch.from_numpy(np.ones((x.shape[1], self.width))).float()
                return self.dense(x + places)  # AMP502

            def converted(self, x):
                places = torch.from_numpy(np.ones((x.shape[1], self.width))).to(x.dtype)
                return self.dense(x + places)

        model, x = Positions(4).bfloat16(), torch.rand(1, 3, 4).bfloat16()
        bad, good = lambda: model(x), lambda: model.converted(x)
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
