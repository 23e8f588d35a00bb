"""Metric learning with a triplet loss that backward() is called on directly, and a learning rate by hand."""

import argparse

import torch
import torch.nn as nn


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x):
        return nn.functional.normalize(self.layers(x), dim=-1)


def adjust_learning_rate(optimizer, step, lr):
    for group in optimizer.param_groups:
        group["lr"] = lr * (0.5 ** (step // 20))


parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--steps", type=int, default=50)
args = parser.parse_args()

torch.manual_seed(6)
losses = []
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Embedder().to(device)
criterion = nn.TripletMarginLoss(margin=0.5)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
centres = torch.randn(4, 10)

for step in range(args.steps):
    adjust_learning_rate(optimizer, step, args.lr)
    label = torch.randint(0, 4, (16,))
    anchor = (centres[label] + 0.1 * torch.randn(16, 10)).to(device)
    positive = (centres[label] + 0.1 * torch.randn(16, 10)).to(device)
    negative = (centres[(label + 1) % 4] + 0.1 * torch.randn(16, 10)).to(device)

    optimizer.zero_grad()
    losses.append(criterion(model(anchor), model(positive), model(negative)).item())
    criterion(model(anchor), model(positive), model(negative)).backward()
    optimizer.step()
