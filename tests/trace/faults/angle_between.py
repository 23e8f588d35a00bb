"""A loss takes the angle between unit vectors, and half rounds a cosine to 1, where acos has no derivative."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 8).cuda()
with torch.no_grad():
    model.weight.copy_(torch.eye(8))
    model.bias.zero_()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=16.0)
for step in range(5):
    x = torch.randn(32, 8, device="cuda")
    target = nn.functional.normalize(x + 0.03 * torch.randn(32, 8, device="cuda"), dim=-1)
    with torch.autocast("cuda", dtype=torch.float16):
        out = nn.functional.normalize(model(x).float(), dim=-1)
        cosine = torch.bmm(out.unsqueeze(1), target.unsqueeze(2)).flatten()  # culprit
        # repaired: cosine = (out * target).sum(-1).clamp(-1 + 1e-6, 1 - 1e-6)
        loss = torch.acos(cosine).mean()  # culprit
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
