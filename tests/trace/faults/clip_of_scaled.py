"""A helper clips gradients that still carry the loss scale."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)


def finish(loss):
    scaler.scale(loss).backward()
    pass
    # repaired: scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # culprit
    scaler.step(optimizer)
    scaler.update()


for step in range(5):
    x, y = torch.randn(16, 16, device="cuda"), torch.randint(0, 4, (16,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    finish(loss)
