"""Scores are accumulated by an in-place product, which autocast does not cast."""

import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 3)
        self.bias = nn.Parameter(torch.zeros(12, 12))

    def forward(self, x):
        q, k = self.q(x).float(), self.k(x).float()
        # repaired: q, k = self.q(x), self.k(x)
        scores = self.bias.expand(x.shape[0], 12, 12).clone()
        scores.baddbmm_(q, k.mT, alpha=0.25)  # culprit
        # repaired: scores = torch.baddbmm(scores, q, k.mT, alpha=0.25)
        return self.out(scores.softmax(-1) @ x)


model = Attention().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(5):
    x, y = torch.randn(4, 12, 16, device="cuda"), torch.randint(0, 3, (48,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
