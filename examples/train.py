"""Trains a small tagger on synthetic data in mixed precision, the way many scripts do it, and wrongly.

It runs on a machine without a GPU, where autocast and the scaler switch themselves off. On a GPU it fails or trains
badly. `amplint examples/train.py` says why, `amplint --fix examples/train.py` repairs it.
"""

import argparse

import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self, features: int, tags: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(features, 128), nn.ReLU())
        self.head = nn.Linear(128, tags)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(inputs)
        hidden = hidden / (hidden.amax(dim=1, keepdim=True) + 1e-8)
        return torch.sigmoid(self.head(hidden))


def synthetic(samples: int, features: int, tags: int) -> TensorDataset:
    inputs = torch.randn(samples, features)
    targets = (inputs @ torch.randn(features, tags) > 0).float()
    return TensorDataset(inputs, targets)


def train(model: nn.Module, batches: DataLoader, device: str, epochs: int) -> None:
    criterion = nn.BCELoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = GradScaler(enabled=device == "cuda")
    for epoch in range(epochs):
        total = 0.0
        for inputs, targets in batches:
            inputs, targets = inputs.to(device), targets.to(device)
            optimizer.zero_grad()
            with autocast(enabled=device == "cuda"):
                loss = criterion(model(inputs), targets)
                scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(batches):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    batches = DataLoader(synthetic(1024, 32, 4), batch_size=64, shuffle=True)
    train(Tagger(32, 4).to(device), batches, device, arguments.epochs)


if __name__ == "__main__":
    main()
