"""A layer counts its steps in a buffer that the model's conversion made bfloat16, which stays at 256."""

import torch
from torch import nn

torch.manual_seed(0)


class Warm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("updates", torch.tensor(300.0))

    def forward(self, x):
        if self.training:
            self.updates += 1  # culprit
        return x + self.linear(x) * (self.updates / 1000).clamp(max=1)


model = nn.Sequential(nn.Linear(8, 16), Warm(16), nn.Linear(16, 3))
for buffer in model.buffers():
    buffer.data = buffer.data.bfloat16()
    # repaired: buffer.data = buffer.data.float()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = nn.functional.cross_entropy(out.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
