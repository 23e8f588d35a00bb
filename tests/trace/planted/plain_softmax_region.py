"""A softmax outside of the region, on scores that are half: no worse than what autocast rounds, but nothing asked for it.

Repaired: `weights = torch.softmax(scores.float(), dim=-1).half()`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) * 32**-0.5
        with torch.autocast("cuda", enabled=False):
            weights = torch.softmax(scores, dim=-1)  # culprit
        return x + self.out(weights @ v)


model = nn.Sequential(nn.Linear(8, 32), Attention(), nn.GELU(), Attention(), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(3):
    x, labels = torch.randn(4, 9, 8, device="cuda"), torch.randint(0, 4, (4, 9), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(model(x).transpose(1, 2), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
