"""Pairs that are alike or not: two branches with the same weights, a margin, distances that are kept off zero."""

import torch
from torch import nn

config = {"steps": 50, "batch": 24, "margin": 1.0, "lr": 3e-3, "threshold": 0.5}
losses = []


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(24, 6)
        )

    def forward_once(self, x):
        return self.branch(x.unsqueeze(1))

    def forward(self, x1, x2):
        return self.forward_once(x1), self.forward_once(x2)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin, eps=1e-8):
        super().__init__()
        self.margin = margin
        self.eps = eps

    def forward(self, a, b, same):
        squared = (a - b).pow(2).sum(1)
        distance = torch.sqrt(squared + self.eps)
        apart = torch.clamp(self.margin - distance, min=0.0)
        return torch.mean(same * squared + (1 - same) * apart.pow(2))


def pairs(rng, count):
    kind = torch.randint(0, 3, (2, count), generator=rng)
    t = torch.linspace(0, 6.28, 12)
    curves = torch.sin(t * (kind[..., None] + 1)) + 0.1 * torch.randn(2, count, 12, generator=rng)
    return curves[0], curves[1], (kind[0] == kind[1]).float()


def main(config):
    torch.manual_seed(29)
    rng = torch.Generator().manual_seed(30)
    net = Siamese()
    criterion = ContrastiveLoss(config["margin"])
    optimizer = torch.optim.Adam(net.parameters(), lr=config["lr"])
    for step in range(1, config["steps"] + 1):
        x1, x2, same = pairs(rng, config["batch"])
        optimizer.zero_grad()
        first, second = net(x1, x2)
        loss = criterion(first, second, same)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    net.eval()
    with torch.no_grad():
        x1, x2, same = pairs(rng, 64)
        first, second = net(x1, x2)
        alike = nn.functional.pairwise_distance(first, second) < config["threshold"]
    print(f"accuracy {(alike == same.bool()).float().mean().item():.2f}")


main(config)
