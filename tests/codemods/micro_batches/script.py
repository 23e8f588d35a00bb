"""A script with a list of batches, a scheduler, gradient norms and a moving average of the weights."""

import copy

import torch
from torch import nn

BATCH = 4
torch.manual_seed(0)
inputs = torch.randn(52, 6)
targets = inputs.sum(1, keepdim=True)
batches = list(zip(inputs.split(BATCH), targets.split(BATCH)))

model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
ema_model = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20)
norms, losses = [], []
global_step = 0
for epoch in range(13):
    for x, y in batches:
        # fresh gradients
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
        scheduler.step()
        with torch.no_grad():
            for a, b in zip(ema_model.parameters(), model.parameters()):
                a.lerp_(b, 0.1)
        global_step += 1
        if global_step % 10 == 0:
            print(f"step {global_step}: {loss.item():.3f}")

result = [norms, [p.tolist() for p in ema_model.parameters()], [float(global_step)]]
