"""Gradients are divided by the loss scale while they are still float16, and become 0 again."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16)).cuda().half()
masters = [parameter.detach().clone().float() for parameter in model.parameters()]
optimizer = torch.optim.SGD(masters, lr=1e4)
scale = 2.0**24
for step in range(5):
    x = torch.randn(64, 16, device="cuda").half()
    loss = 1e-7 * nn.functional.mse_loss(model(x).float(), x.float())
    (scale * loss).backward()
    for master, parameter in zip(masters, model.parameters()):
        parameter.grad.div_(scale)  # culprit
        # repaired: pass
        master.grad = parameter.grad.float()
        # repaired: master.grad = parameter.grad.float() / scale
        parameter.grad = None
    optimizer.step()
    with torch.no_grad():
        for master, parameter in zip(masters, model.parameters()):
            parameter.copy_(master)
