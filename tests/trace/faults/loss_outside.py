"""The cross entropy is taken of float16 logits behind the region, and so in float16."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 200)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(5):
    x, y = torch.randn(16, 16, device="cuda"), torch.randint(0, 200, (16,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)  # culprit
    # repaired: loss = nn.functional.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
