"""Regression: the learning rate falls and training ends when the validation loss no longer improves."""

import copy
import math

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset, random_split

losses = []


class EarlyStopping:
    def __init__(self, patience=5, delta=0.0):
        self.patience = patience
        self.delta = delta
        self.best = math.inf
        self.bad = 0
        self.state = None

    def __call__(self, value, model):
        if value < self.best - self.delta:
            self.best = value
            self.bad = 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


def get_data():
    x = torch.randn(400, 6)
    y = (x[:, 0] * x[:, 1] + x[:, 2].sin())[:, None] + 0.05 * torch.randn(400, 1)
    return random_split(TensorDataset(x, y), [320, 80])


def run_epoch(model, loader, criterion, optimizer=None):
    """One pass over the data; trains where there is an optimizer."""
    model.train(optimizer is not None)
    values = []
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in loader:
            out = model(x)
            loss = criterion(out, y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            values.append(loss.item())
    return sum(values) / len(values)


def main():
    torch.manual_seed(17)
    train_set, val_set = get_data()
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=80)
    model = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 1))
    criterion = nn.HuberLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=2)
    stopping = EarlyStopping(patience=8)
    for epoch in range(10):
        run_epoch(model, train_loader, criterion, optimizer)
        val_loss = run_epoch(model, val_loader, criterion)
        scheduler.step(val_loss)
        if stopping(val_loss, model):
            print("stopped early")
            break
    model.load_state_dict(stopping.state)


if __name__ == "__main__":
    main()
