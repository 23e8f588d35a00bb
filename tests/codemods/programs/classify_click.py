"""Classification in functions, with options of click."""

import click
import torch
from torch import nn

losses = []


def train(model, optimizer, batches, clip):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())


@click.command()
@click.option("--epochs", default=5, help="how often all is seen")
@click.option("--lr", default=0.1, type=float)
def main(epochs, lr):
    """Train on clouds of points."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    inputs = torch.randn(10, 32, 8)
    targets = inputs[:, :, :4].argmax(2)
    for _ in range(epochs):
        train(model, optimizer, zip(inputs, targets, strict=True), clip=1.0)


if __name__ == "__main__":
    main(standalone_mode=False)
