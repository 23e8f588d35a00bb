"""Gradients of many small batches are added up in a bfloat16 buffer (kyegomez/SingLoRA issue 6 loses them so)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
sums = [torch.zeros_like(one, dtype=torch.bfloat16) for one in model.parameters()]
# repaired: sums = [torch.zeros_like(one) for one in model.parameters()]
x, y = torch.randn(24, 256, 16), torch.randint(0, 4, (24, 256))
for step in range(5):
    for total in sums:
        total.zero_()
    for batch, label in zip(x.repeat(16, 1, 1), y.repeat(16, 1)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(batch + 3)
        loss = nn.functional.cross_entropy(out.float(), label)
        for total, gradient in zip(sums, torch.autograd.grad(loss, list(model.parameters()))):
            total += gradient / 384  # culprit
    for parameter, total in zip(model.parameters(), sums):
        parameter.grad = total.float()
    optimizer.step()
