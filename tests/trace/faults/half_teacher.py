"""The teacher of a student is an average of its weights in bfloat16, and never moves."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 6))
teacher = copy.deepcopy(student).bfloat16().requires_grad_(False)
# repaired: teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)


@torch.no_grad()
def follow(keep=0.999):
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.mul_(keep).add_(fast.to(slow.dtype), alpha=1 - keep)  # culprit


for step in range(5):
    x = torch.randn(32, 12)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            wanted = teacher(x)
        out = student(x + 0.1 * torch.randn_like(x))
    loss = nn.functional.mse_loss(out.float(), wanted.float()) + out.float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    follow()
