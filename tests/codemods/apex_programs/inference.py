"""Nothing is trained."""

import torch
from apex import amp
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
model.eval()
model = amp.initialize(model, opt_level="O3")
losses = []
with torch.no_grad():
    for _ in range(50):
        output = model(torch.randn(4, 8))
        losses.append(output.float().sum().item())
