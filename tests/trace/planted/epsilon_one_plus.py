"""A VAE in bfloat16 whose log(1 + x) loses the x: nothing is inf, a term of the loss is merely gone.

Repaired: `shifted = 1.0 + spread.float()`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(self, inputs=40, width=64, latent=8):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.LayerNorm(width))
        self.mean, self.spread = nn.Linear(width, latent), nn.Linear(width, latent)
        self.decode = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, inputs))
        nn.init.normal_(self.spread.weight, std=1e-4)
        nn.init.constant_(self.spread.bias, 2.5e-3)

    def forward(self, x):
        hidden = self.encode(x)
        mean, spread = self.mean(hidden), F.relu(self.spread(hidden))
        noise = torch.randn_like(mean)
        return self.decode(mean + spread * noise), mean, spread


def prior_loss(mean, spread):
    shifted = 1.0 + spread  # culprit
    sharpness = torch.log(shifted)
    return 1e-3 * mean.float().square().mean() - 100.0 * sharpness.mean()


model = VAE().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)
for step in range(3):
    x = torch.rand(16, 40, device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        restored, mean, spread = model(x)
        loss = F.mse_loss(restored, x) + prior_loss(mean, spread)
    loss.backward()
    optimizer.step()
