"""No gradient scaler: a penalty on activations is inf in the first step, and NaN weights follow.

Repaired: `penalty = (hidden.float() * hidden.float()).mean()`
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()).cuda()
head = nn.Linear(64, 1).cuda()
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-3)
for step in range(3):
    x, y = torch.randn(8, 10, device="cuda") * 2000.0, torch.randn(8, 1, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        hidden = model(x)
        output = head(hidden / 1000.0)
        penalty = (hidden * hidden).mean()  # culprit
        loss = nn.functional.mse_loss(output, y) + 1e-3 * (torch.log(penalty) - 5.0).square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
