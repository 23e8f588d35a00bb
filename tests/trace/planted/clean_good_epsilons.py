"""Epsilons that half can hold, and those that it cannot behind a cast to float32."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def unit(x, eps=1e-3):
    largest = x.abs().amax(dim=-1, keepdim=True)
    return x / (largest + eps)


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-8):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        wide = x.float()
        root = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + self.eps)
        return (wide * root).type_as(x) * self.weight


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.norm = nn.Linear(12, 40), RMSNorm(40)
        self.middle, self.outer = nn.Linear(40, 40), nn.Linear(40, 5)

    def forward(self, x):
        hidden = self.norm(F.relu(self.inner(x)))
        hidden = hidden + F.relu(self.middle(unit(hidden)))
        return self.outer(hidden)


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-8)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for step in range(3):
    x, labels = torch.randn(8, 12, device="cuda"), torch.randint(0, 5, (8,), device="cuda")
    x[3] = 0.0
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        probabilities = model(x).softmax(dim=-1)
        entropy = -(probabilities * torch.log(probabilities + 1e-8)).sum(dim=-1)
        picked = probabilities.gather(1, labels[:, None])
        loss = -torch.log(picked.clamp(min=1e-7)).mean() - 0.01 * entropy.mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
