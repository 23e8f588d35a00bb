"""Mixed precision that a flag switches, with a scaler and a loss of two terms."""

import torch
from torch import nn

BATCH = 4
USE_AMP = True


def train(model, head, batches, optimizer, scaler):
    for i, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.float16, enabled=USE_AMP):
            features = model(x)
            loss = nn.functional.mse_loss(head(features), y) + 0.01 * features.float().pow(2).mean()
        optimizer.zero_grad()
        if USE_AMP:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if i % 5 == 0:
            print(f"{i} of {len(batches)}: {loss.item():.3f}")


torch.manual_seed(0)
inputs = torch.randn(52, 6)
batches = [(x, x.sum(1, keepdim=True)) for x in inputs.split(BATCH)]
model, head = nn.Sequential(nn.Linear(6, 8), nn.Tanh()), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for epoch in range(13):
    train(model, head, batches, optimizer, scaler)
