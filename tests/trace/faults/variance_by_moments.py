"""A normalisation computes its variance as the difference of two large means in bfloat16."""

import torch
from torch import nn

torch.manual_seed(0)


class Normalise(nn.Module):
    def forward(self, x):
        x = x.bfloat16()
        # repaired: x = x.float()
        mean = x.mean(-1, keepdim=True)  # culprit
        square = (x * x).mean(-1, keepdim=True)  # culprit
        variance = square - mean * mean  # culprit
        return (x - mean) / (variance.clamp(min=0) + 0.1).sqrt()


model = nn.Sequential(nn.Linear(8, 32), Normalise(), nn.Linear(32, 3))
with torch.no_grad():
    model[0].bias += 20
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
