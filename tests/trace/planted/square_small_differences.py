"""A smoothness penalty: squares of small differences underflow to 0, and nothing is inf.

Repaired: `roughness = steps.float() * steps.float()`
"""

import torch
from torch import nn

torch.manual_seed(0)


class Field(nn.Module):
    """Coordinates to a displacement."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(1, 64)
        self.hidden = nn.Linear(64, 64)
        self.norm = nn.LayerNorm(64)
        self.out = nn.Linear(64, 2)
        nn.init.normal_(self.out.weight, std=2e-4)
        nn.init.zeros_(self.out.bias)

    def forward(self, coordinates):
        hidden = torch.sin(self.lift(coordinates * 6.0))
        hidden = self.norm(hidden + torch.relu(self.hidden(hidden)))
        return self.out(hidden)


def smoothness(field):
    steps = field[1:] - field[:-1]
    roughness = steps * steps  # culprit
    return roughness.sum(dim=-1).mean()


field = Field().cuda()
optimizer = torch.optim.SGD(field.parameters(), lr=1e-9)
scaler = torch.amp.GradScaler("cuda", init_scale=1.0)
coordinates = torch.linspace(0, 1, 24, device="cuda")[:, None]
observed = 1e-4 * torch.randn(24, 2, device="cuda")
for step in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        displacement = field(coordinates)
        data = (displacement.float() - observed).square().mean()
        loss = torch.log(data + 100.0 * smoothness(displacement))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
