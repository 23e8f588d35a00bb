"""Contrastive learning with a low temperature, whose log-sum-exp is written by hand outside of the region.

Repaired: `exponentials = logits.float().exp()`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(2, 16, 5, padding=2),
            nn.BatchNorm1d(16),
            nn.GELU(),
            nn.Conv1d(16, 32, 5, stride=2, padding=2),
            nn.BatchNorm1d(32),
            nn.GELU(),
        )
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, signal):
        pooled = self.net(signal).mean(dim=-1)
        return F.normalize(self.head(pooled), dim=-1)


class InfoNCE(nn.Module):
    def __init__(self, temperature=0.05):
        super().__init__()
        self.temperature = temperature

    def forward(self, first, second):
        similarity = first @ second.t()
        with torch.autocast("cuda", enabled=False):
            logits = similarity / self.temperature
            exponentials = logits.exp()  # culprit
            partition = exponentials.float().sum(dim=1)
            loss = torch.log(partition) - logits.diagonal().float()
        return loss.mean()


encoder, criterion = Encoder().cuda(), InfoNCE()
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=128.0)
for step in range(3):
    signal = torch.randn(12, 2, 32, device="cuda")
    views = [signal + 0.1 * torch.randn_like(signal) for _ in range(2)]
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(encoder(views[0]), encoder(views[1]))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
