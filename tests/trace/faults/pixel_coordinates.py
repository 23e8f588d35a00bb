"""A grid of pixel coordinates is made in float16, which has only every second whole number above 2048."""

import torch
from torch import nn

torch.manual_seed(0)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(16, 32), nn.Linear(32, 1)
        self.register_buffer("rates", 3.14 * torch.arange(1, 9) / 4)

    def forward(self, pixels):
        x = pixels.half()  # culprit
        # repaired: x = pixels.float()
        waves = x[:, None] * self.rates  # culprit
        return self.outer(torch.relu(self.inner(torch.cat([waves.sin(), waves.cos()], -1))))


model = Field().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(5):
    pixels = torch.arange(3001, 3301, device="cuda")
    value = (pixels % 2).float()[:, None]
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(pixels), value)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
