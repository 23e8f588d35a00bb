"""What would happen in half precision where tensors of unknown dtype meet float32: said to those who ask for it."""

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

RULES = tuple(load_registry().rules[code] for code in ("AMP502", "AMP504"))
HEADER = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from extension import kernels


"""


def found(program: str) -> set[tuple[int, str]]:
    """The lines of `program` that are reported, each with the code; all of it infos."""
    code = HEADER + textwrap.dedent(program).lstrip("\n")
    job = Job("program.py", "", code.encode(), RULES, asked=frozenset({"AMP502", "AMP504"}))
    findings = analyse(job, Modules()).findings
    assert all(finding.severity is Severity.INFO for finding in findings)
    assert not findings_of(code, RULES)
    return {(finding.span.start.row - HEADER.count("\n"), finding.code) for finding in findings}


PROGRAMS = {
    "a layer behind what was divided by a statistic in float32": """
        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.dense, self.scale = nn.Linear(width, width), nn.Parameter(torch.ones(width))

            def forward(self, x):
                spread = x.float().var(-1, keepdim=True)  # AMP502
                return self.dense(self.scale * x / spread.sqrt())

            def back(self, x):
                spread = x.float().var(-1, keepdim=True)
                return self.dense((x / spread.sqrt()).to(x.dtype))

            def one_number(self, x):
                return self.dense(x / x.float().mean()) + self.dense(x - x.float().amax())
    """,
    "queries and keys computed from a cast, and values that are not": """
        def turned(x):
            a, b = x.chunk(2, dim=-1)
            return torch.cat([-b, a], dim=-1)

        class Attention(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.qkv = nn.Linear(width, 3 * width)

            def forward(self, x, cos, sin):
                q, k, v = self.qkv(x).chunk(3, dim=-1)
                q = q.float() * cos + turned(q.float()) * sin  # AMP502
                k = k.float() * cos + turned(k.float()) * sin
                return F.scaled_dot_product_attention(q, k, v)

            def back(self, x, cos, sin):
                q, k, v = self.qkv(x).chunk(3, dim=-1)
                q = q.float() * cos + turned(q.float()) * sin
                k = k.float() * cos + turned(k.float()) * sin
                return F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v)

            def all_wide(self, x, cos, sin):
                q, k, v = self.qkv(x).float().chunk(3, dim=-1)
                q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
                return F.scaled_dot_product_attention(q, k, v)
    """,
    "whole numbers and truth values, cast to float32 for a layer": """
        class Conditions(nn.Module):
            def __init__(self, width, kinds):
                super().__init__()
                self.kinds = kinds
                self.embed, self.gate = nn.Linear(kinds, width), nn.Conv1d(1, width, 1)

            def forward(self, x, kind, lengths):
                chosen = F.one_hot(kind, self.kinds).to(torch.float32)
                inside = (lengths[:, None] > 3).float()
                x = x + self.embed(chosen)  # AMP502
                x = x + self.embed(F.one_hot(kind, self.kinds).to(x.dtype))
                return x * self.gate(inside[:, None])  # AMP502
    """,
    "an embedding of steps whose frequencies are counted": """
        class Steps(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.width, self.dense = width, nn.Linear(width, width)

            def forward(self, steps):
                rates = torch.exp(-0.1 * torch.arange(self.width // 2, device=steps.device) / (self.width // 2))
                angles = steps.float()[:, None] * rates[None]
                return self.dense(torch.cat([angles.sin(), angles.cos()], dim=-1))  # AMP502
    """,
    "a layer in an attribute of a module that has no class of its own": """
        class Denoiser(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.width = width
                self.time = nn.Module()
                self.time.dense = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, width)])

            def forward(self, x, steps):
                scales = torch.exp(torch.arange(self.width // 2, dtype=torch.float32) * -0.1).to(steps.device)
                angles = steps.float()[:, None] * scales[None, :]
                embedding = torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)
                return x + self.time.dense[1](F.silu(self.time.dense[0](embedding)))  # AMP502
    """,
    "a mask that a helper cuts into windows": """
        def windows(x, size):
            b, h, w, c = x.shape
            x = x.view(b, h // size, size, w // size, size, c)
            return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size * size, c)

        class Attention(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.qkv = nn.Linear(width, 3 * width)
                self.softmax = nn.Softmax(dim=-1)

            def forward(self, x, mask=None):
                q, k, v = self.qkv(x).reshape(8, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
                scores = q @ k.transpose(-2, -1)
                if mask is not None:
                    scores = scores.view(2, 4, 4, 16, 16) + mask.unsqueeze(1).unsqueeze(0)
                    scores = scores.view(-1, 4, 16, 16)
                return self.softmax(scores) @ v

        class Stage(nn.Module):
            def __init__(self, depth, width):
                super().__init__()
                self.blocks = nn.ModuleList([Attention(width) for _ in range(depth)])

            def forward(self, x, height, width):
                image = torch.zeros((1, height, width, 1), device=x.device)  # AMP502
                cut = windows(image, 4).view(-1, 16)
                mask = cut.unsqueeze(1) - cut.unsqueeze(2)
                mask = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
                for block in self.blocks:
                    x = block(x, mask)
                return x
    """,
    "a mask that is handed to blocks": """
        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.qkv = nn.Linear(width, 3 * width)

            def forward(self, x, mask):
                q, k, v = self.qkv(x).chunk(3, dim=-1)
                scores = q @ k.transpose(-2, -1) + mask
                return scores.softmax(-1) @ v

        class Stage(nn.Module):
            def __init__(self, depth, width):
                super().__init__()
                self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])

            def forward(self, x, height, width):
                mask = torch.zeros((1, height, width), device=x.device)  # AMP502
                mask = mask.masked_fill(mask != 0, -100.0)
                for block in self.blocks:
                    x = block(x, mask)
                return x

        class Alike(Stage):
            def forward(self, x, height, width):
                mask = torch.zeros((1, height, width), device=x.device, dtype=x.dtype)
                for block in self.blocks:
                    x = block(x, mask)
                return x
    """,
    "a grid that is moved by what is given": """
        def coords_grid(batch, height, width, device):
            rows = torch.arange(height, device=device)
            columns = torch.arange(width, device=device)
            grid = torch.stack(torch.meshgrid(rows, columns)[::-1], dim=0).float()
            return grid[None].repeat(batch, 1, 1, 1)

        def warp(image, flow):
            n, _, height, width = image.shape
            grid = coords_grid(n, height, width, image.device) + flow
            return F.grid_sample(image, grid.permute(0, 2, 3, 1))  # AMP502

        def warp_alike(image, flow):
            n, _, height, width = image.shape
            grid = coords_grid(n, height, width, image.device).to(image.dtype) + flow
            return F.grid_sample(image, grid.permute(0, 2, 3, 1))
    """,
    "a grid joined of its coordinates": """
        def resample(image, flow):
            x = torch.linspace(-1, 1, 9, device=image.device).view(1, 3, 3, 1)
            y = torch.linspace(-1, 1, 9, device=image.device).view(1, 3, 3, 1)
            return F.grid_sample(image, torch.cat([x, y], dim=-1))  # AMP502

        def shift(image, flow):
            x = torch.linspace(-1, 1, 3, device=image.device)
            grid = torch.stack(torch.meshgrid(x, x), dim=-1)[None] + flow
            left, right = grid.split([1, 1], dim=-1)
            grid = torch.cat([2 * left / 7 - 1, right], dim=-1)
            return F.grid_sample(image, grid)  # AMP502

        def resample_alike(image, flow):
            x = torch.linspace(-1, 1, 9, device=image.device, dtype=image.dtype).view(1, 3, 3, 1)
            return F.grid_sample(image, torch.cat([x, x], dim=-1))

        def nudge(image, flow):
            return F.grid_sample(image, flow + torch.tensor(0.5, device=image.device))
    """,
    "a mask converted to float32 in a product": """
        class Spread(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(8, 8))

            def forward(self, edges, nodes):
                sent = nodes @ self.weight
                return edges.float() @ sent, edges.to(sent.dtype) @ sent  # AMP502
    """,
    "results of layers among elements of a tensor like their input": """
        from parts import Expert

        class Router(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.experts = nn.ModuleList([Expert(width) for _ in range(4)])
                self.shared = nn.Linear(width, width)

            def forward(self, tokens, chosen):
                out = torch.empty_like(tokens)
                copy = torch.zeros_like(tokens)
                for number, expert in enumerate(self.experts):
                    out[chosen == number] = expert(tokens[chosen == number])  # AMP502
                    copy[chosen == number] = expert(tokens[chosen == number]).to(copy.dtype)
                copy[chosen == 5] = tokens[chosen == 5]
                copy[chosen == 6] = self.shared(tokens[chosen == 6])  # AMP502
                return out + copy
    """,
    "counts in float32 where the mask else follows": """
        class Pool(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.layer = nn.Linear(width, width)

            def forward(self, inputs, mask):
                inputs = self.layer(inputs)
                inputs = inputs * mask.unsqueeze(-1).type_as(inputs)
                counts = mask.float().sum(dim=1, keepdim=True).clamp(min=1)  # AMP504
                return inputs.sum(dim=1) / counts
    """,
    "attention asked for in float32": """
        from einops import rearrange

        class Attention(nn.Module):
            def forward(self, scores, values):
                shares = scores.softmax(dim=-1, dtype=torch.float32)
                values = rearrange(values, "b n (h d) -> b h n d", h=4)
                first = shares.to(values.dtype) @ values + shares @ values.float()
                return first + torch.einsum("bhij,bhjd->bhid", shares, values)  # AMP502
    """,
    "counts in float32 where nothing follows": """
        class Pool(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.layer = nn.Linear(width, width)

            def forward(self, inputs, mask):
                inputs = self.layer(inputs)
                counts = mask.float().sum(dim=1, keepdim=True).clamp(min=1)
                return inputs.sum(dim=1) / counts
    """,
    "a cache at the positions of a tensor": """
        class Cache(nn.Module):
            def __init__(self, shape, dtype):
                super().__init__()
                self.register_buffer("keys", torch.zeros(shape, dtype=dtype), persistent=False)

            def update(self, at: torch.Tensor, keys: torch.Tensor):
                kept = self.keys
                kept[:, :, at] = keys  # AMP502
                kept[:, :, at] = keys.to(kept.dtype)
                return kept
    """,
    "a buffer asked to be float32": """
        class Field(nn.Module):
            def forward(self, samples):
                mask = samples.valid_mask
                masked, embedding = self.density(samples)
                density = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
                density[mask[..., 0]] = masked  # AMP502
                wide = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
                wide[mask[..., 0]] = masked.float()
                wide[0, :] = masked
                return density, wide, torch.cat([wide, masked])
    """,
    "a mask that one of two calls makes": """
        class Masker(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.embedding = nn.Parameter(torch.empty(width))

            def forward(self, features, lengths):
                chosen = row_mask(features.shape, lengths=lengths.rows if lengths is not None else None)
                features[chosen] = self.embedding
                row_masks = row_mask(features.shape, lengths=lengths.rows if lengths is not None else None)
                features[row_masks] = self.embedding  # AMP502
                return features
    """,
    "padding on the device of a tensor": """
        def pad(x, n):
            return torch.cat([x, torch.zeros(x.shape[0], n, device=x.device)], dim=1)  # AMP504
    """,
    "padding of the dtype": """
        def pad(x, n):
            return torch.cat([x, torch.zeros(x.shape[0], n, device=x.device, dtype=x.dtype)], dim=1)
    """,
    "noise of the size of a tensor": """
        def noisy(x, sigma):
            noise = torch.randn(x.shape, device=x.device)  # AMP504
            return x + sigma * noise
    """,
    "noise like a tensor": """
        def noisy(x, sigma):
            return x + sigma * torch.randn_like(x)
    """,
    "constants of an old class": """
        def corners(box: torch.Tensor):
            signs = torch.FloatTensor([0.5, -0.5]).to(box.device)  # AMP504
            return signs * box
    """,
    "an accumulator that stays float32": """
        def total(xs, x):
            sums = torch.zeros(x.shape, device=x.device)
            sums += x
            return sums
    """,
    "whole numbers": """
        def starts(lengths):
            return torch.cat([torch.zeros(1, device=lengths.device), lengths.cumsum(0)])
    """,
    "an output buffer of an extension": """
        class Group(torch.autograd.Function):
            @staticmethod
            def forward(ctx, features, indices):
                assert indices.dtype == torch.int
                output = torch.cuda.FloatTensor(features.size(0), 4)  # AMP504
                kernels.group(features, indices, output)
                return output
    """,
    "an output buffer of the dtype": """
        class Group(torch.autograd.Function):
            @staticmethod
            def forward(ctx, features, indices):
                output = features.new_zeros(features.size(0), 4)
                kernels.group(features, indices, output)
                return output
    """,
    "a cache": """
        class Cache(nn.Module):
            def __init__(self, shape, dtype=None):
                super().__init__()
                self.register_buffer("k", torch.zeros(shape, dtype=dtype))

            def forward(self, position, k):
                return self.k.index_copy_(2, position, k)  # AMP502
    """,
    "a cache that follows": """
        class Cache(nn.Module):
            def __init__(self, shape, dtype=None):
                super().__init__()
                self.register_buffer("k", torch.zeros(shape, dtype=dtype))

            def forward(self, position, k):
                self.k = self.k.to(k.dtype)
                return self.k.index_copy_(2, position, k)
    """,
    "a cache and converted keys": """
        class Cache(nn.Module):
            def __init__(self, shape, dtype=None):
                super().__init__()
                self.register_buffer("k", torch.zeros(shape, dtype=dtype))

            def forward(self, position, k):
                return self.k.index_copy_(2, position, k.to(self.k.dtype))
    """,
    "a cache that is written by index": """
        class Cache(nn.Module):
            def __init__(self, shape):
                super().__init__()
                self.register_buffer("k", torch.zeros(shape))

            def forward(self, k, mask):
                picked = mask.nonzero(as_tuple=True)
                indices = mask.long()
                self.k[:, :, indices] = k.contiguous()  # AMP502
                self.k[:, :, :4] = k
    """,
    "a learned embedding in the place of masked ones": """
        class Masked(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.proj = nn.Linear(dim, dim)
                self.mask_emb = nn.Parameter(torch.FloatTensor(dim).uniform_())

            def forward(self, x, mask_indices):
                x = self.proj(x)
                x[mask_indices] = self.mask_emb  # AMP502
                return x
    """,
    "a learned embedding of the dtype": """
        class Masked(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.proj = nn.Linear(dim, dim)
                self.mask_emb = nn.Parameter(torch.FloatTensor(dim).uniform_())

            def forward(self, x, mask_indices):
                x = self.proj(x)
                x[mask_indices] = self.mask_emb.to(x.dtype)
                return x
    """,
    "messages added up": """
        def aggregate(x: torch.Tensor, index: torch.Tensor, n: int):
            out = torch.zeros(n, x.size(1), device=x.device)
            return out.index_add_(0, index, x)  # AMP502
    """,
    "messages scattered": """
        def aggregate(x: torch.Tensor, index: torch.Tensor, n: int):
            out = torch.zeros(n, x.size(1), device=x.device)
            out.scatter_add_(0, index, x)  # AMP502
            out.scatter_(0, index, 1.0)
            return torch.zeros(n, x.size(1)).to(x).scatter_add_(0, index, x)
    """,
    "experts": """
        class Experts(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.gate = nn.Linear(dim, 4)
                self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(4))

            def forward(self, x):
                out = torch.zeros(x.shape, device=x.device)
                chosen = self.gate(x).argmax(-1)
                for number, expert in enumerate(self.experts):
                    rows = (chosen == number).nonzero(as_tuple=True)[0]
                    out[rows] = expert(x[rows])  # AMP502
                return out
    """,
    "sampling on a grid": """
        def warp(x, theta):
            ys, xs = torch.meshgrid(torch.linspace(-1, 1, 4), torch.linspace(-1, 1, 4))
            grid = torch.zeros(x.shape[0], 4, 4, 2, device=x.device)
            return F.grid_sample(x, grid)  # AMP502
    """,
    "an operator of the file": """
        def blur(x):
            kernel = torch.tensor([1.0, 2.0, 1.0], device=x.device).view(1, 1, 3)
            return F.conv1d(x, kernel)  # AMP502
    """,
    "a layer of float32": """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Sequential(nn.Linear(8, 8), nn.SiLU())
                self.proj = nn.Linear(8, 8)

            def forward(self, x, t):
                empty = torch.zeros(x.shape[0], 8, device=x.device)
                return self.proj(empty) + self.proj(empty.to(x.dtype)) + self.proj(x.float())  # AMP502
    """,
    "an embedding of time": """
        def embedding(t, size):
            frequencies = torch.exp(torch.arange(size, dtype=torch.float32) / size)
            angles = t[:, None].float() * frequencies[None]
            return torch.cat([angles.cos(), angles.sin()], dim=-1)


        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = nn.Linear(8, 8)

            def forward(self, x, t):
                return x + self.proj(embedding(t, 4))  # AMP502
    """,
    "a half model and pictures of a loader": """
        def evaluate(loader, model):
            model.half()
            model.eval()
            for images, labels in loader:
                images = images.cuda()
                model(images)  # AMP502
                model(images.half())
                with torch.autocast("cuda"):
                    model(images)
            model.float()
            for images, labels in loader:
                model(images)
    """,
    "a half model that is made at once": """
        import torchvision


        def time():
            model = torchvision.models.resnet18().cuda().half()
            model.eval()
            model(torch.randn(1, 3, 224, 224, device="cuda"))  # AMP502
            model(torch.randn(1, 3, 224, 224, device="cuda", dtype=torch.half))
    """,
    "a half copy": """
        import copy


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

            def forward(self, x):
                return self.body(x)


        def save(x):
            model = Net()
            twin = copy.deepcopy(model).half()
            torch.save(twin, "model.pt")
            return model(torch.zeros(1, 8))
    """,
    "pictures among words": """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.Embedding(10, 8)
                self.proj = nn.Linear(4, 8)

            def forward(self, ids, pictures):
                x = self.words(ids)
                x[ids == 3] = self.proj(pictures)  # AMP502
                x[ids == 4] = self.proj(pictures).to(x.dtype)
                x[0] = self.proj(pictures)
                return x
    """,
    "features that are only moved": """
        class Model(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.words = nn.Embedding(10, size)

            def forward(self, embeds, mask, features):
                embeds[mask == 1] = features.to(embeds.device).view(-1, features.shape[-1])  # AMP502
                embeds[mask == 2] = features.to(embeds.device, embeds.dtype)
                mask[mask == 2] = features.to(mask.device)
                return embeds
    """,
    "a state to begin with": """
        from torch.autograd import Variable


        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(8, 8)
                self.cell = nn.GRUCell(8, 8)

            def forward(self, x):
                h = Variable(torch.zeros(1, x.size(1), 8)).cuda()
                y, _ = self.lstm(x, (h, h))  # AMP502
                y = self.cell(x[0], h[0])  # AMP502
                h = x.new_zeros(1, x.size(1), 8)
                return self.lstm(x, (h, h))
    """,
    "a state where none is given": """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(8, 8)
                self.gru = nn.GRU(8, 8)

            def initial(self, batch):
                return torch.zeros(1, batch, 8)  # AMP502

            def forward(self, x, states=None, hidden=None, like=None):
                if states is None:
                    state = torch.zeros(1, x.size(1), 8, device=x.device)  # AMP502
                    states = (state, state)
                x, _ = self.lstm(x, states)
                if hidden is None:
                    hidden = self.initial(x.size(1))
                x, _ = self.gru(x, hidden)
                if like is None:
                    like = x.new_zeros(1, x.size(1), 8)
                return self.gru(x, like)

            def reshaped(self, x, states=None):
                if states is not None:
                    states = (states[0].transpose(0, 1), states[1].transpose(0, 1))
                else:
                    state = torch.zeros(1, x.size(1), 8)  # AMP502
                    states = (state, state)
                return self.lstm(x, states)

            def unpacked(self, x, states=None):
                if states is not None:
                    hidden, cell = states
                else:
                    hidden = torch.zeros(1, x.size(1), 8)  # AMP502
                    cell = torch.zeros(1, x.size(1), 8)
                return self.lstm(x, (hidden, cell))

            def unsqueezed(self, x, hidden=None):
                if hidden is not None:
                    hidden = hidden.unsqueeze(0)
                else:
                    hidden = torch.zeros(1, x.size(1), 8, dtype=x.dtype)
                return self.gru(x, hidden)
    """,
    "a memory of features": """
        def collect(model, loader, n):
            memory = torch.zeros(n, 8, device="cuda")
            with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
                for images, indices in loader:
                    features = model(images)
                    memory[indices] = features  # AMP502
            return memory
    """,
    "levels": """
        class Neck(nn.Module):
            def forward(self, features):
                out = []
                for level, x in enumerate(features):
                    out.append(torch.cat([x, torch.zeros(x.shape[0], 2, device=x.device)], dim=1))  # AMP504
                    out.append(torch.ones(x.shape[0], device=x.device) * level)
                return out


        def collect(loader):
            out = []
            for x, y in loader:
                out.append(torch.cat([x, torch.zeros(x.shape[0], 2, device=x.device)], dim=1))
            return out
    """,
    "pieces of a tensor": """
        def crop(x, size):
            pieces = torch.zeros(x.shape[0], size).to(x.device)  # AMP504
            for row in range(len(x)):
                pieces[row] = x[row, :size]
            return pieces


        def count(x, size):
            found = torch.zeros(x.shape[0], device=x.device)
            for row in range(len(x)):
                found[row] = (x[row] > 0).sum()
            return found
    """,
    "a layer that is asked for its matrix": """
        def matrix(layer, model):
            eye = torch.eye(layer.weight.shape[1], device=layer.weight.device)
            model(torch.zeros(1, 3, device=next(model.parameters()).device))  # AMP502
            layer(torch.eye(4, device=layer.weight.device, dtype=layer.weight.dtype))
            return layer(eye).T  # AMP502
    """,
    "a mask that is added": """
        def widen(attention_mask, size):
            padding = torch.zeros((attention_mask.shape[0], size), device=attention_mask.device)  # AMP504
            return torch.concat([attention_mask, padding], dim=1)


        def count(x, mask):
            return torch.ones(x.shape, device=x.device) * mask
    """,
    "sizes that are taken before": """
        def pad(x, device):
            b, c, h, w = x.shape
            return torch.cat([x, torch.zeros(b, c, h, 1, device=device)], dim=-1)  # AMP504
    """,
    "noise that a helper draws in the shape and on the device of its caller's tensor": """
        def gumbel(shape, device, least=1e-6):
            drawn = torch.rand(shape, device=device)  # AMP504
            return -torch.log(-torch.log(drawn + least) + least)

        def noisy(scores, temperature=0.7):
            return (scores + gumbel(scores.shape, scores.device)) / temperature
    """,
    "noise that a helper draws in a shape of its own": """
        def gumbel(shape, device, least=1e-6):
            drawn = torch.rand(shape, device=device)
            return -torch.log(-torch.log(drawn + least) + least)

        def noisy(scores, places, temperature=0.7):
            return scores.sum() + gumbel((3, 4), places)
    """,
    "a choice of two numbers beside what is converted to a dtype": """
        class Pipeline:
            def prepare(self, video: torch.Tensor, mask: torch.Tensor):
                video = video.to(dtype=self.vae.dtype)
                mask = torch.where(mask > 0.5, 1.0, 0.0)  # AMP504
                return self.vae.encode(video * (1 - mask))
    """,
    "a choice of two numbers that is converted": """
        class Pipeline:
            def prepare(self, video: torch.Tensor, mask: torch.Tensor):
                video = video.to(dtype=self.vae.dtype)
                mask = torch.where(mask > 0.5, 1.0, 0.0).to(video.dtype)
                return self.vae.encode(video * (1 - mask))
    """,
    "places in lists": """
        class Windows(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4, 4)

            def forward(self, x, windows):
                out = torch.zeros_like(x)
                for window in windows:
                    both = window + [one + 8 for one in window]
                    out[both] = self.inner(x[both])  # AMP502
                first = list(range(4))
                out[first] = self.inner(x[first])  # AMP502
                out[sorted(windows)] = self.inner(x)  # AMP502
                out[(x > 0).nonzero().squeeze(1)] = self.inner(x)  # AMP502
                out[len(windows)] = self.inner(x)
                return out
    """,
    "a static method": """
        class Tiles:
            @staticmethod
            def cut(x, size, count):
                tiles = torch.zeros((count, 3, size, size), device=x.device)  # AMP504
                for row in range(count):
                    tiles[row] = x[:, row : row + size, :size]
                return tiles
    """,
    "made through lambdas, comprehensions and einops": """
        from einops import rearrange, repeat

        class Places(nn.Module):
            def forward(self, data):
                b, *sizes, _ = data.shape
                axes = list(map(lambda size: torch.linspace(-1, 1, size, device=data.device), sizes))  # AMP504
                places = rearrange(torch.stack(torch.meshgrid(*axes), dim=-1), "h w d -> (h w) d")
                return torch.cat([data, repeat(places, "n d -> b n d", b=b)], dim=-1)

        class Grid(nn.Module):
            def forward(self, data):
                axes = [torch.linspace(-1, 1, size, device=data.device) for size in data.shape[1:]]
                places = torch.stack(torch.meshgrid(*axes), dim=-1).to(data.dtype)
                return torch.cat([data, places], dim=-1)
    """,
    "converted where it is moved": """
        class Squeeze(nn.Module):
            def forward(self, x, mask=None):
                if mask is None:
                    mask = torch.ones(x.size(0), 1, x.size(2)).to(device=x.device, dtype=x.dtype)
                return x * mask

        def add_noise(x, sigma):
            noise = torch.randn(x.shape).to(x.device)  # AMP504
            return x + sigma * noise

        class AttentionLoss(nn.Module):
            def forward(self, scores, lengths):
                masks = torch.zeros(scores.shape, device=scores.device)
                return (scores * masks).mean()

        class MarginLoss(nn.Module):
            def __init__(self):
                super().__init__()
                self.powers = torch.FloatTensor([1.0, 2.0])  # AMP504

            def forward(self, cosine):
                return (cosine.unsqueeze(1) ** self.powers.to(cosine.device)).sum()
    """,
    "a mask of tokens as an entry": """
        class Pooling(nn.Module):
            def forward(self, features):
                states = features["states"]
                mask = features["attention_mask"].unsqueeze(-1).expand(states.size()).float()  # AMP504
                return torch.sum(states * mask, 1) / mask.sum(1).clamp(min=1e-3)

        class Converted(nn.Module):
            def forward(self, features):
                states = features["states"]
                mask = features["attention_mask"].unsqueeze(-1).expand(states.size()).to(states.dtype)
                return torch.sum(states * mask, 1) / mask.sum(1).clamp(min=1e-3)
    """,
    "parameters in the size of a layer that is given": """
        class Adapter(nn.Module):
            def __init__(self, layer, rank):
                super().__init__()
                self.layer = layer
                self.down = nn.Parameter(torch.randn(rank, layer.in_features))  # AMP504
                self.up = nn.Parameter(torch.zeros(layer.weight.shape[0], rank))  # AMP504

            def forward(self, x):
                return self.layer(x) + x @ self.down.T @ self.up.T

        class Typed(nn.Module):
            def __init__(self, layer, rank):
                super().__init__()
                self.layer = layer
                self.down = nn.Parameter(torch.randn(rank, layer.in_features, dtype=layer.weight.dtype))

        class Joined(nn.Module):
            def __init__(self, encoder):
                super().__init__()
                self.encoder = encoder
                self.empty = nn.Parameter(torch.zeros(1, encoder.last.weight.shape[0]))
    """,
    "a norm that leaves its result in float32": """
        class Norm(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(width))

            def forward(self, x):
                x = x.float()  # AMP502
                return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)

        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.norm = Norm(width)
                self.dense = nn.Linear(width, width)

            def forward(self, x):
                return x + self.dense(self.norm(x))

        class Own(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.dense = nn.Linear(width, width)

            def forward(self, x):
                return self.dense(x.float())
    """,
    "scores of the rows that a mask selects": """
        class Head(nn.Module):
            def __init__(self, width, words):
                super().__init__()
                self.words = nn.Parameter(torch.empty(words, width))

            def forward(self, x, groups, top):
                chosen = (groups.unsqueeze(0) == top.unsqueeze(-1)).any(dim=1)
                logits = x.new_full((x.size(0), 10), -1.0)
                for row in range(x.size(0)):
                    logits[row, chosen[row]] = x[row] @ self.words[chosen[row]].t()  # AMP502
                return logits
    """,
    "tensors of the caller": """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = nn.Linear(8, 8)

            def forward(self, x):
                return x + self.proj(x)

            def check(self):
                x = torch.zeros(1, 8, device=self.proj.weight.device)
                return self.forward(x)
    """,
    "a float32 default beside what a caller gives": """
        class Attention(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.dense = nn.Linear(width, width)

            def forward(self, x, bias=None):
                x = self.dense(x)
                if bias is None:
                    bias = torch.zeros(x.shape, device=x.device)
                return self.dense(x + bias)  # AMP502

            def alone(self, x, start=None):
                start = torch.zeros(x.shape, device=x.device) if start is None else start
                return self.dense(start)  # AMP502

            def written(self, x, kept=None):
                x = self.dense(x)
                if kept is None:
                    kept = torch.zeros(x.shape, device=x.device)
                kept[x > 0] = x[x > 0]  # AMP502
                return kept

            def alike(self, x, bias=None):
                x = self.dense(x)
                if bias is None:
                    bias = torch.zeros(x.shape, device=x.device, dtype=x.dtype)
                return self.dense(x + bias)
    """,
    "weights of classes": """
        class Loss(nn.Module):
            def __init__(self, classes):
                super().__init__()
                self.dense, self.classes = nn.Linear(classes, classes), classes

            def forward(self, x, target):
                logits = self.dense(x)
                weight = torch.ones(self.classes, device=logits.device)
                loss = F.cross_entropy(logits, target, weight=weight)  # AMP502
                return loss + F.nll_loss(logits.log_softmax(-1), target, weight)  # AMP502

            def alike(self, x, target):
                logits = self.dense(x)
                weight = torch.ones(self.classes, device=logits.device)
                loss = F.cross_entropy(logits.float(), target, weight=weight) + F.cross_entropy(logits, target)
                return loss + F.cross_entropy(logits, target, weight=weight.to(logits.dtype))
    """,
    "float32 tensors that a list gathers": """
        class Grids(nn.Module):
            def forward(self, x, sizes):
                grids = []
                for size in sizes:
                    grids.append(torch.linspace(-1, 1, size, device=x.device))
                return torch.cat(grids) @ x, torch.stack([g.to(x.dtype) for g in grids]) @ x  # AMP502

            def first(self, x, sizes):
                grids = [torch.linspace(-1, 1, size, device=x.device) for size in sizes]
                return torch.stack(grids) @ x  # AMP502

            def unlike(self, x, sizes):
                grids = []
                for size in sizes:
                    grids.append(torch.linspace(-1, 1, size, device=x.device))
                    grids.append(x)
                return torch.stack([grid.to(x) for grid in grids]) @ x
    """,
    "results of containers that are filled one by one": """
        class Filled(nn.Module):
            def __init__(self, width, depth):
                super().__init__()
                layers = []
                for _ in range(depth):
                    layers.append(nn.Linear(width, width))
                    layers.append(nn.GELU())
                self.stem, self.named, self.padded = nn.Sequential(*layers), nn.Sequential(), nn.ZeroPad1d(0)
                for i in range(depth):
                    self.named.add_module(str(i), nn.Linear(width, width))
                self.layers, self.depth = nn.ModuleList(layers), depth

            def forward(self, x, index: torch.Tensor):
                out = torch.zeros_like(x)
                out[index] = self.stem(x[index])  # AMP502
                out.index_add_(0, index, self.named(x[index]))  # AMP502
                return out

            def looped(self, x, index: torch.Tensor):
                out, part = torch.zeros_like(x), x[index]
                for layer in self.layers:
                    part = layer(part)
                out[index] = part  # AMP502
                return out

            def on_a_path(self, x, index: torch.Tensor):
                out, part = torch.zeros_like(x), x[index]
                if self.depth > 1:
                    part = self.stem(part)
                out[index] = part  # AMP502
                return out

            def converted(self, x, index: torch.Tensor):
                out = torch.zeros_like(x)
                out[index] = self.stem(x[index]).to(out.dtype)
                out[index] = self.padded(x[index])
                return out
    """,
    "new tensors seen through operations that keep their dtype": """
        def gridded(x):
            rows = torch.linspace(-1, 1, x.shape[-2], device=x.device)  # AMP504
            columns = torch.linspace(-1, 1, x.shape[-1], device=x.device)
            grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij"))
            return torch.cat([x, grid.tile(x.shape[0], 1, 1, 1)], 1)

        def weighted(x, index):
            weights = torch.ones(x.shape[0], 4, device=x.device).scatter(1, index, 0.5).mul(2)
            return weights.gather(0, index) @ x  # AMP502

        def limited(x):
            one, other = torch.rand(4, x.shape[0], device=x.device), torch.ones(4, x.shape[0], device=x.device)
            return torch.maximum(one, other) @ x  # AMP502

        def alike(x):
            rows = torch.linspace(-1, 1, x.shape[-2], device=x.device, dtype=x.dtype)
            return rows.tile(3, 1).mul(2) @ x, torch.stack([rows, x[0]]) @ x

        def converted(x):
            rows = torch.linspace(-1, 1, x.shape[-2], device=x.device)
            return rows.tile(3, 1).to(x.dtype) @ x
    """,
    "inputs made where the parameters of a model are": """
        def by_parameters(model, shape):
            device = next(model.parameters()).device
            noise = torch.randn(shape, device=device)
            return model(noise)  # AMP502

        def moved(model, shape):
            noise = torch.randn(shape).to(model.device)
            return model.encode(noise)  # AMP502

        def elsewhere(model, other, shape):
            noise = torch.randn(shape, device=other.device)
            return model(noise)

        def in_its_dtype(model, shape):
            parameter = next(model.parameters())
            return model(torch.randn(shape, device=parameter.device, dtype=parameter.dtype))

        def no_activations(model, ids, weights):
            device = next(model.parameters()).device
            attention_mask = torch.ones(ids.shape, device=device)
            model.record(torch.zeros(3, device=device))
            return model(ids.to(device), attention_mask=attention_mask)
    """,
    "data": """
        class Buffer:
            def sample(self, x, batch):
                data = torch.FloatTensor(batch).to(self.device)
                return torch.cat([x, data])
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_clash(name: str) -> None:
    lines = textwrap.dedent(PROGRAMS[name]).lstrip("\n").splitlines()
    expected = {(row, line.partition("# ")[2]) for row, line in enumerate(lines, 1) if "# AMP" in line}
    assert found(PROGRAMS[name]) == expected


def test_pytorch_refuses_adapters_in_float32_and_norms_that_stay_float32() -> None:
    x, layer = torch.randn(2, 8, dtype=torch.bfloat16), torch.nn.Linear(8, 4).bfloat16()
    with pytest.raises(RuntimeError, match="same dtype"):
        x @ torch.randn(2, layer.in_features).T
    with pytest.raises(RuntimeError, match="same dtype"):
        layer(torch.ones(8, dtype=torch.bfloat16) * x.float())


def test_pytorch_refuses_results_of_layers_in_a_tensor_of_the_dtype_of_their_input() -> None:
    x, index = torch.randn(4, 8), torch.tensor([0, 2])
    stem = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(RuntimeError, match="dtypes match"):
        torch.zeros_like(x)[index] = stem(x[index])


def test_pytorch_refuses_weights_of_classes_in_another_dtype() -> None:
    logits, weight, target = torch.randn(2, 3, dtype=torch.bfloat16), torch.ones(3), torch.tensor([0, 1])
    with pytest.raises(RuntimeError, match="expected scalar type"):
        torch.nn.functional.cross_entropy(logits, target, weight=weight)
    with pytest.raises(RuntimeError, match="expected scalar type"):
        torch.nn.functional.nll_loss(logits, target, weight)


ELEMENTS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, mask):
        chosen = torch.nonzero(mask).squeeze(1)
        memory = {made}
        memory[{key}] = {value}
        return memory
"""


@pytest.mark.parametrize(
    ("made", "key", "value", "fixed"),
    [
        ("torch.zeros(len(x), 8)", "chosen", "self.layer(x[chosen])", "self.layer(x[chosen]).to(memory.dtype)"),
        ("torch.zeros(len(x), 8)", "chosen, :", "-self.layer(x[chosen])", "(-self.layer(x[chosen])).to(memory.dtype)"),
        ("x.new_zeros(len(x), 8)", "chosen", "self.layer(x[chosen]).to(x.dtype)", None),
        ("{}", '(chosen, "outputs")', "self.layer(x[chosen])", None),
    ],
)
def test_assigned_elements_are_converted(made: str, key: str, value: str, fixed: str | None) -> None:
    code = ELEMENTS.format(made=made, key=key, value=value)
    job = Job("program.py", "", code.encode(), RULES, asked=frozenset({"AMP502"}))
    fixes = [one.fix for one in analyse(job, Modules()).findings if "elements" in one.message]
    assert [fix.edits[0].content for fix in fixes if fix is not None] == ([fixed] if fixed else [])
    assert len(fixes) == bool(fixed)
