"""The second layer of a feed-forward block of T5's shape adds up to more than float16 holds."""

import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(width), nn.Linear(width, 256), nn.Linear(256, width)
        with torch.no_grad():
            self.up.weight.mul_(80)
            self.down.weight.mul_(60)

    def forward(self, x):
        hidden = torch.relu(self.up(self.norm(x))) ** 2
        with torch.autocast("cuda", dtype=torch.float16):
            # repaired: with torch.autocast("cuda", enabled=False):
            return x + self.down(hidden.float())  # culprit


model = nn.Sequential(nn.Linear(16, 16), Block(), Block(), nn.LayerNorm(16), nn.Linear(16, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=16.0)
for step in range(5):
    x, y = torch.randn(16, 16, device="cuda"), torch.randint(0, 3, (16,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
