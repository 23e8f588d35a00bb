"""A reconstruction loss is summed up in float16 and does not fit there."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for step in range(5):
    image = torch.rand(64, 64) * 10
    with torch.autocast("cpu", dtype=torch.float16):
        restored = model(image)
    error = restored - image.half()
    # repaired: error = restored.float() - image
    loss = (error * error).sum()  # culprit
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
