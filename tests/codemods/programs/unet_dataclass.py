"""A U-Net whose settings are a dataclass; cross-entropy and Dice are added up, IoU is measured after each epoch."""

from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F

losses = []


@dataclass
class Config:
    epochs: int = 5
    rounds: int = 10
    lr: float = 2e-3
    dice_weight: float = 0.5
    widths: list = field(default_factory=lambda: [4, 8])
    device: str = "cuda" if torch.cuda.is_available() else "cpu"


def block(inside, outside):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, widths):
        super().__init__()
        first, second = widths
        self.enter = block(1, first)
        self.deep = block(first, second)
        self.up = nn.ConvTranspose2d(second, first, 2, stride=2)
        self.leave = block(2 * first, first)
        self.head = nn.Conv2d(first, 1, 1)

    def forward(self, x):
        skip = self.enter(x)
        deep = self.deep(F.max_pool2d(skip, 2))
        return self.head(self.leave(torch.cat([self.up(deep), skip], dim=1)))


def dice_loss(logits, mask, smooth=1.0):
    probability = torch.sigmoid(logits).flatten(1)
    mask = mask.flatten(1)
    overlap = (probability * mask).sum(1)
    return 1 - ((2 * overlap + smooth) / (probability.sum(1) + mask.sum(1) + smooth)).mean()


def discs(rng):
    ys, xs = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    centre = torch.rand(6, 2, 1, 1, generator=rng) * 8 + 4
    mask = (((ys - centre[:, 0]) ** 2 + (xs - centre[:, 1]) ** 2) < 14).float()[:, None]
    return mask + 0.2 * torch.randn(mask.shape, generator=rng), mask


def iou(model, config, rng):
    model.eval()
    with torch.inference_mode():
        images, masks = (t.to(config.device) for t in discs(rng))
        found = torch.sigmoid(model(images)) > 0.5
        both, either = (found & (masks > 0)).sum().item(), (found | (masks > 0)).sum().item()
    model.train()
    return both / max(either, 1)


def train(config):
    rng = torch.Generator().manual_seed(5)
    model = UNet(config.widths).to(config.device)
    bce = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    for epoch in range(config.epochs):
        seen = 0.0
        for _ in range(config.rounds):
            images, masks = discs(rng)
            images = images.to(config.device)
            masks = masks.to(config.device)
            logits = model(images)
            loss = bce(logits, masks) + config.dice_weight * dice_loss(logits, masks)

            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            losses.append(loss.item())
            seen += loss.item() * len(images)
        print(f"{epoch}: {seen / config.rounds:.3f}, IoU {iou(model, config, rng):.3f}")


if __name__ == "__main__":
    torch.manual_seed(5)
    train(Config())
