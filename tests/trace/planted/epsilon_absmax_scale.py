"""Fake quantisation: rows are divided by their largest number plus 1e-8, which is 0 in half; padded rows are all 0.

Repaired: `guarded = largest.float() + self.eps`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Quantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return torch.round(values * 127.0) / 127.0

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class QuantisedLinear(nn.Module):
    def __init__(self, inputs, outputs, eps=1e-8):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.eps = eps

    def forward(self, x):
        largest = x.abs().amax(dim=-1, keepdim=True)
        guarded = largest + self.eps  # culprit
        levels = Quantise.apply(x / guarded)
        return self.linear(levels * guarded)


class Tagger(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(30, width, padding_idx=0)
        self.inner = QuantisedLinear(width, 2 * width)
        self.drop = nn.Dropout(0.1)
        self.outer = QuantisedLinear(2 * width, width)
        self.norm = nn.LayerNorm(width)
        self.tag = nn.Linear(width, 7)

    def forward(self, tokens):
        x = self.embed(tokens)
        with torch.no_grad():
            here = (tokens > 0).unsqueeze(-1)
        x = x + self.drop(self.outer(F.relu(self.inner(x)) * here))
        return self.tag(self.norm(x))


model = Tagger().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(3):
    tokens = torch.randint(1, 30, (4, 10), device="cuda")
    tokens[:, 7:] = 0
    tags = torch.randint(0, 7, (4, 10), device="cuda").masked_fill(tokens == 0, -100)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(tokens)
        loss = F.cross_entropy(logits.transpose(1, 2), tags, ignore_index=-100)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
