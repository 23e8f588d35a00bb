"""Where words end is a running sum of durations, which bfloat16 rounds to whole seconds and worse."""

import torch
from torch import nn

torch.manual_seed(0)
durations = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Softplus())
optimizer = torch.optim.AdamW(durations.parameters(), lr=1e-3)
for step in range(5):
    text = torch.randn(2, 8192, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        length = durations(text).squeeze(-1).bfloat16()
        # repaired: length = durations(text).squeeze(-1).float()
        ends = length.cumsum(-1)  # culprit
    target = torch.arange(1, 8193) * 0.7
    loss = (ends.float() / target - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
