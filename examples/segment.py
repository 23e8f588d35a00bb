"""Trains a small network that segments synthetic photographs, in mixed precision on a GPU.

Without a GPU, `amplint trace --dry-run --max-batch 2 examples/segment.py` shows what its first steps would do on one.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Discs(Dataset):
    """Photographs of a bright disc on noise, and where it is."""

    def __init__(self, samples: int, size: int) -> None:
        self.samples, self.size = samples, size

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        centre = torch.rand(2, 1, 1, generator=generator)
        grid = torch.stack(torch.meshgrid(*[torch.linspace(0, 1, self.size)] * 2, indexing="ij"))
        mask = ((grid - centre) ** 2).sum(0) < 0.1
        return torch.randn(3, self.size, self.size, generator=generator) + mask, mask.long()


def network(classes: int, width: int = 16) -> nn.Module:
    layers = [
        nn.Conv2d(3, width, 3, stride=2, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.ConvTranspose2d(width, classes, 2, stride=2),
    ]
    return nn.Sequential(*layers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = network(classes=2).to(device)
    batches = DataLoader(Discs(256, 64), batch_size=arguments.batch_size, shuffle=True, pin_memory=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=arguments.epochs * len(batches))
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(arguments.epochs):
        for images, masks in batches:
            images, masks = images.to(device, non_blocking=True), masks.to(device, non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(images).float(), masks)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scale = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            if scaler.get_scale() >= scale:
                schedule.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
