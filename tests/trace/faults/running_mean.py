"""A layer keeps a running mean in bfloat16, whose updates are too small to move it."""

import torch
from torch import nn

torch.manual_seed(0)


class Centre(nn.Module):
    def __init__(self, width, momentum=0.001):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.ones(width).bfloat16())
        # repaired: self.register_buffer("mean", torch.ones(width))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean += self.momentum * (x.mean(0) - self.mean)  # culprit
        return x - self.mean


model = nn.Sequential(nn.Linear(10, 16), Centre(16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    x, y = 1.5 + torch.randn(32, 10), torch.randint(0, 3, (32,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
