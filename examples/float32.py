"""Trains a small regressor in float32 on a GPU.

`amplint convert --to amp examples/float32.py` shows it in mixed precision.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    features = torch.randn(1024, 32)
    batches = DataLoader(TensorDataset(features, features.sum(dim=1, keepdim=True)), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(arguments.epochs):
        for inputs, targets in batches:
            inputs, targets = inputs.cuda(), targets.cuda()
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
