"""The frequencies of rotary embeddings are a bfloat16 buffer: angles of far positions are radians off."""

import torch
from torch import nn

torch.manual_seed(0)


class Rotary(nn.Module):
    def __init__(self, width, base=10_000.0):
        super().__init__()
        frequencies = base ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("frequencies", frequencies.bfloat16())  # culprit
        # repaired: self.register_buffer("frequencies", frequencies)

    def forward(self, x):
        positions = torch.arange(x.shape[1], dtype=self.frequencies.dtype)  # culprit
        angles = positions[:, None] * self.frequencies  # culprit
        cos, sin = angles.cos(), angles.sin()
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.cat([even * cos - odd * sin, odd * cos + even * sin], -1)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rotary = Rotary(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, 4)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = self.rotary(q) @ self.rotary(k).mT / q.shape[-1] ** 0.5
        return self.out(scores.softmax(-1) @ v)


model = Attention(16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    x = torch.randn(2, 600, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = nn.functional.cross_entropy(out.float().flatten(0, 1), torch.randint(0, 4, (1200,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
