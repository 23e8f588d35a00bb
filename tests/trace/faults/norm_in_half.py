"""The norm of all gradients is computed of float16 copies."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(5):
    x, y = torch.randn(16, 16, device="cuda"), torch.randint(0, 4, (16,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    flat = torch.cat([parameter.grad.flatten().half() for parameter in model.parameters()])
    # repaired: flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    norm = flat.norm()  # culprit
    for parameter in model.parameters():
        parameter.grad.mul_((1.0 / (norm.float() + 1e-6)).clamp(max=1.0))
    scaler.step(optimizer)
    scaler.update()
