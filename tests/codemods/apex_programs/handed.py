"""The optimizer goes from function to function, and what scales its gradients goes along."""

import io

import torch
import torch.nn as nn

try:
    from apex import amp
except ImportError:
    amp = None


def save_checkpoint(model, optimizer, epoch, file):
    """Write a checkpoint."""
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)


def load_checkpoint(file, model, optimizer):
    """Read a checkpoint."""
    checkpoint = torch.load(file)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["epoch"]


def train_epoch(loader, model, criterion, optimizer, verbose=False):
    """One pass over the data."""
    losses = []
    for inputs, targets in loader:
        output = model(inputs)
        loss = criterion(output, targets)
        optimizer.zero_grad()
        if amp is not None:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if verbose:
            print(losses[-1])
    return losses


def validate(loader, model, criterion):
    """The mean loss."""
    model.eval()
    with torch.no_grad():
        return sum(criterion(model(inputs), targets).item() for inputs, targets in loader) / len(loader)


def main():
    """Train, save and load, and train again."""
    torch.manual_seed(0)
    loader = [(torch.randn(16, 4), torch.randint(0, 2, (16,))) for _ in range(10)]
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if amp is not None:
        model, optimizer = amp.initialize(model, optimizer)
    losses = []
    for epoch in range(5):
        model.train()
        losses += train_epoch(loader, model, criterion, optimizer)
        validate(loader, model, criterion)
        file = io.BytesIO()
        save_checkpoint(model, optimizer, epoch, file)
        file.seek(0)
        load_checkpoint(file, model, optimizer)
    return losses


if __name__ == "__main__":
    losses = main()
