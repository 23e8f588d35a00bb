"""A gradient penalty compares the norm of gradients with 1 while they carry the loss scale."""

import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)).cuda()
optimizer = torch.optim.SGD(critic.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=16.0)
for step in range(5):
    x = torch.randn(32, 8, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=torch.float16):
        out = critic(x).float().sum()
    (gradient,) = torch.autograd.grad(scaler.scale(out), x, create_graph=True)
    gradient = gradient.float()
    # repaired: gradient = gradient.float() / scaler.get_scale()
    penalty = (gradient.norm(dim=1) - 1).square().mean()  # culprit
    loss = out / 32 + 10 * penalty
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
