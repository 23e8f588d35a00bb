"""The running variance of a batch norm in float16 becomes inf: training goes on, evaluation is all 0."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8, affine=False), nn.Linear(8, 3)).cuda()
model[1].half()
# repaired: model[1].float()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for step in range(5):
    x, y = 2000 * torch.randn(32, 16, device="cuda"), torch.randint(0, 3, (32,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        hidden = model[0](x)
        out = model[2](model[1](hidden.to(model[1].running_mean.dtype)))  # culprit
        loss = nn.functional.cross_entropy(out.float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
