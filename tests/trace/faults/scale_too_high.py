"""A loss scale of 2**28 is beyond what the float16 gradients of a wide layer hold."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**28)
# repaired: scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)
for step in range(6):
    x, y = torch.randn(32, 32, device="cuda"), torch.randint(0, 4, (32,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(x)  # culprit
        loss = nn.functional.cross_entropy(out, y)  # culprit
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
