"""An energy-based model that leaves the region for its energy, but with half activations: pow(2) overflows.

Repaired: `powers = hidden.float().pow(2)`
"""

import torch
from torch import nn

torch.manual_seed(0)


class EnergyModel(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.inner = nn.Linear(16, width)
        self.norm = nn.LayerNorm(width)
        self.middle = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)

    def features(self, inputs):
        hidden = torch.tanh(self.inner(inputs))
        hidden = self.norm(hidden + self.middle(hidden))
        return 150.0 * self.outer(hidden)

    def forward(self, inputs):
        hidden = self.features(inputs)
        with torch.autocast("cuda", enabled=False):
            powers = hidden.pow(2)  # culprit
            energy = powers.float().mean(dim=-1)
            return torch.log1p(energy)


model = EnergyModel().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=16.0)
for step in range(3):
    positive = torch.randn(8, 16, device="cuda")
    negative = torch.randn(8, 16, device="cuda") * 2.0
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        low, high = model(positive), model(negative)
        loss = torch.relu(low - high + 1.0).mean() + 0.01 * low.mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
