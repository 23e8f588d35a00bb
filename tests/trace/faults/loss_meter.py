"""The mean of losses is kept as a bfloat16 sum, which stops growing (pytorch/xla pull request 2425)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
total = torch.tensor(700.0)
for step in range(5):
    x, y = torch.randn(16, 16), torch.randint(0, 10, (16,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = nn.functional.cross_entropy(out.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = total.bfloat16()
    # repaired: total = total.float()
    total = total + loss.detach().to(total.dtype) / 2  # culprit
    print(total.item() / (step + 301))
