"""An RMS norm divides padded rows by an epsilon that is 0 in float16."""

import torch
from torch import nn

torch.manual_seed(0)


class RootMeanSquare(nn.Module):
    def __init__(self, width, epsilon=1e-8):
        super().__init__()
        self.gain, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        x = x.half()
        # repaired: x = x.float()
        mean = (x * x).mean(-1, keepdim=True)
        root = torch.sqrt(mean.to(x.dtype) + self.epsilon)  # culprit
        return x / root * self.gain  # culprit


model = nn.Sequential(nn.Linear(16, 16, bias=False), RootMeanSquare(16), nn.Linear(16, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for step in range(5):
    x, y = torch.randn(16, 16, device="cuda"), torch.randint(0, 4, (16,), device="cuda")
    x[12:] = 0
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
