"""A squared error of heights in metres is beyond float16."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
for step in range(5):
    x, height = torch.randn(32, 16, device="cuda"), 400 + 200 * torch.rand(32, 1, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        error = model(x) - height.half()
        # repaired: error = model(x).float() - height
        loss = (error * error).mean()  # culprit
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
