"""The norm of gradients decides whether a step is taken, and carries the loss scale.

Lightning-AI/pytorch-lightning issue 11407.
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
log = []
for step in range(5):
    x, y = torch.randn(16, 16, device="cuda"), torch.randint(0, 4, (16,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    pass
    # repaired: scaler.unscale_(optimizer)
    norm = torch.stack([parameter.grad.norm() for parameter in model.parameters()]).norm()  # culprit
    log.append(norm.item())
    if norm > 1e5:
        continue
    scaler.step(optimizer)
    scaler.update()
