"""Gradients are added up over micro-batches, and the last, shorter window is stepped too."""

import torch
from torch import nn

losses = []


def train_one_epoch(model, batches, optimizer, accum_steps):
    model.train()
    optimizer.zero_grad()
    for i, (x, y) in enumerate(batches):
        pred = model(x)
        loss = nn.functional.mse_loss(pred, y)
        losses.append(loss.item())
        loss = loss / accum_steps
        loss.backward()
        if (i + 1) % accum_steps == 0 or i + 1 == len(batches):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def main():
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = [torch.randn(16, 3) for _ in range(10)]
    batches = [(x, x.prod(1, keepdim=True)) for x in inputs]
    for epoch in range(5):
        train_one_epoch(model, batches, optimizer, accum_steps=4)


main()
