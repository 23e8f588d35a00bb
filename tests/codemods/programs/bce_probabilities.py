"""A binary classifier that ends in a sigmoid, with nn.BCELoss."""

import torch
import torch.nn as nn
import torch.nn.functional as F

losses = []


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(F.relu(self.hidden(x)))


torch.manual_seed(12)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(50):
    x = torch.randn(32, 4)
    y = (x.sum(1, keepdim=True) > 0).float()
    probability = torch.sigmoid(model(x))
    loss = F.binary_cross_entropy(probability, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
