"""A filter network is trained by what a frozen network sees in its output: pixels, features and smoothness."""

import torch
import torch.nn as nn
import torch.nn.functional as F

losses = []
WEIGHTS = {"pixel": 1.0, "feature": 0.2, "smooth": 1e-2}


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.slices = nn.ModuleList([nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 3, stride=2, padding=1)])
        for param in self.parameters():
            param.requires_grad = False

    def forward(self, x):
        maps = []
        for conv in self.slices:
            x = F.relu(conv(x))
            maps.append(x)
        return maps


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.InstanceNorm2d(8, affine=True),
            nn.PReLU(),
            nn.Conv2d(8, 3, 3, padding=1),
        )

    def forward(self, x):
        return x + self.layers(x)


def total_variation(x):
    return (x[..., 1:, :] - x[..., :-1, :]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean()


class PerceptualLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = Features()

    def forward(self, output, target):
        parts = {"pixel": F.l1_loss(output, target), "smooth": total_variation(output)}
        seen = zip(self.features(output), self.features(target))
        parts["feature"] = sum(F.mse_loss(a, b) for a, b in seen)
        return sum(WEIGHTS[name] * value for name, value in parts.items()), parts


def train():
    torch.manual_seed(71)
    model, criterion = Filter(), PerceptualLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.5, 0.99))
    for i in range(1, 51):
        sharp = torch.rand(4, 3, 8, 8).repeat_interleave(2, 2).repeat_interleave(2, 3)
        blurred = F.avg_pool2d(F.pad(sharp, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
        optimizer.zero_grad()
        restored = model(blurred)
        loss, parts = criterion(restored, sharp)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if i % 25 == 0:
            print(i, ", ".join(f"{name} {value.item():.4f}" for name, value in parts.items()))
    return model


if __name__ == "__main__":
    train()
