"""A diffusion's schedule is a running product of bfloat16 numbers near 1, which all round to 1."""

import torch
from torch import nn

torch.manual_seed(0)


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", 1 - torch.linspace(1e-4, 2e-3, 1000))

    def forward(self, clean, moment):
        kept = self.kept.bfloat16()  # culprit
        # repaired: kept = self.kept
        share = kept.cumprod(0)[moment][:, None]  # culprit
        noise = torch.randn_like(clean)
        return share.sqrt() * clean + (1 - share).clamp(min=0).sqrt() * noise, noise


model, corrupt = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16)), Noise()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    noisy, noise = corrupt(torch.randn(32, 16), torch.randint(0, 1000, (32,)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(noisy)
    loss = nn.functional.mse_loss(out.float(), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
