"""Clipped gradients of single samples are added up in bfloat16, which loses most of the later ones."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    x, y = 2 + torch.randn(800, 16), torch.randint(0, 4, (800,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = nn.functional.cross_entropy(out.float(), y, reduction="sum")
    (slopes,) = torch.autograd.grad(loss, out)
    total = torch.zeros(4, 16, dtype=torch.bfloat16)
    # repaired: total = torch.zeros(4, 16)
    gradients = slopes.float().unsqueeze(2) * x.unsqueeze(1)
    for gradient in gradients / gradients.norm(dim=(1, 2), keepdim=True).clamp(min=1):
        total += gradient  # culprit
    model.weight.grad = total.float() / 800
    optimizer.step()
