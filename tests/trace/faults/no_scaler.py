"""No scaler: the gradient of a mean over many small terms is 0 where it enters float16."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**20, enabled=False)
# repaired: scaler = torch.amp.GradScaler("cuda", init_scale=2.0**18)
for step in range(5):
    x = torch.randn(4, 3, 24, 24, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(x)
        loss = 1e-3 * nn.functional.mse_loss(out, x.repeat(1, 3, 1, 1)[:, :8])  # culprit
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
