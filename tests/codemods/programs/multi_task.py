"""Several tasks with a weighted sum of losses, two optimizers in a list, and a loss added up in a loop."""

import torch
import torch.nn.functional as F
from torch import nn

losses = []
torch.manual_seed(7)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 24)

    def forward(self, x):
        return F.gelu(self.body(x))


trunk = Shared()
heads = nn.ModuleDict({"regression": nn.Linear(24, 1), "classification": nn.Linear(24, 3)})
optimizers = [torch.optim.Adam(trunk.parameters(), lr=5e-3), torch.optim.Adam(heads.parameters(), lr=5e-3)]
weights = {"regression": 0.5, "classification": 1.0}

for epoch in range(5):
    for i in range(10):
        x = torch.randn(32, 6)
        targets = {"regression": x.sum(1, keepdim=True), "classification": x[:, :3].argmax(1)}
        for optimizer in optimizers:
            optimizer.zero_grad()
        features = trunk(x)
        loss = 0.0
        for name, head in heads.items():
            output = head(features)
            if name == "regression":
                loss = loss + weights[name] * F.mse_loss(output, targets[name])
            else:
                loss = loss + weights[name] * F.cross_entropy(output, targets[name])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
