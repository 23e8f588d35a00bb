"""Attention by hand that scales its scores behind the product instead of before: the product overflows.

Repaired: `scores = (q.float()[..., :, None, :] * k.float()[..., None, :, :]).sum(dim=-1)`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, mask):
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(-2, -1))  # culprit
        scores = scores * self.scale
        scores = scores.masked_fill(mask, float("-inf"))
        weights = self.drop(scores.softmax(dim=-1))
        mixed = torch.matmul(weights, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Encoder(nn.Module):
    def __init__(self, width=128, heads=2, layers=2):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.position = nn.Parameter(torch.randn(1, 12, width) * 0.02)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(width),
                    "attention": Attention(width, heads),
                    "mlp": nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()),
                }
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 5)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position
        mask = torch.ones(12, 12, dtype=torch.bool, device=tokens.device).triu(1)
        for layer in self.layers:
            x = x + layer["attention"](layer["norm"](x), mask)
            x = x + layer["mlp"](x)
        return self.head(x.mean(dim=1))


model = Encoder().to("cuda")
with torch.no_grad():  # a channel of queries and keys has grown, as in long runs without a norm for them
    for channel in (0, 64, 128, 192):
        model.layers[1]["attention"].qkv.weight[channel] = 0.0
        model.layers[1]["attention"].qkv.bias[channel] = 300.0
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-7, weight_decay=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=64.0)
for step in range(3):
    tokens, labels = torch.randint(0, 50, (4, 12), device="cuda"), torch.randint(0, 5, (4,), device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(model(tokens), labels, label_smoothing=0.1)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
