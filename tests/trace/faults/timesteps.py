"""Moments of a diffusion are rounded to bfloat16 in front of their embedding (modelscope/DiffSynth-Studio 562)."""

import torch
from torch import nn

torch.manual_seed(0)


class Denoise(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inner, self.outer = nn.Linear(2 * width, 32), nn.Linear(32, width)
        self.register_buffer("rates", torch.exp(-torch.arange(0, width, 2) / width * 9.2))

    def forward(self, x, moment):
        moment = moment.to(torch.bfloat16)  # culprit
        # repaired: moment = moment.float()
        angle = moment[:, None].float() * self.rates
        time = torch.cat([angle.cos(), angle.sin()], -1)
        return self.outer(nn.functional.silu(self.inner(torch.cat([x, time], -1))))


model = Denoise()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    x, noise, moment = torch.randn(32, 16), torch.randn(32, 16), 1000 * torch.rand(32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x + noise, moment)
    loss = nn.functional.mse_loss(out.float(), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
