"""A helper function does the backward pass and the step, and measures the gradients on the way."""

import torch
from torch import nn

losses, norms = [], []


def gradient_norm(model):
    total = 0.0
    for p in model.parameters():
        if p.grad is not None:
            total += p.grad.detach().norm(2).item() ** 2
    return total**0.5


def optimize(loss, model, optimizer: torch.optim.Optimizer, log=True):
    optimizer.zero_grad()
    loss.backward()
    if log:
        norms.append(gradient_norm(model))
    optimizer.step()


def fit(model, steps):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for step in range(steps):
        x = torch.randn(16, 4)
        prediction = model(x)
        loss = nn.functional.smooth_l1_loss(prediction, x.sum(1, keepdim=True))
        optimize(loss, model, optimizer, log=step % 5 == 0)
        losses.append(loss.item())


torch.manual_seed(9)
fit(nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 1)), 50)
