"""Positions are counted in bfloat16, which has only every fourth number above 512."""

import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, 2)
        self.rates = torch.exp(-torch.arange(0, width, 2) / width * 9.2)

    def forward(self, x):
        positions = torch.arange(x.shape[1], dtype=x.dtype)  # culprit
        # repaired: positions = torch.arange(x.shape[1], dtype=torch.float32)
        angles = positions[:, None] * self.rates
        table = torch.cat([angles.sin(), angles.cos()], -1)
        return self.outer(torch.relu(self.inner(x + table)))


model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    x = torch.randn(2, 1000, 16).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = nn.functional.cross_entropy(out.float().flatten(0, 1), torch.randint(0, 2, (2000,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
