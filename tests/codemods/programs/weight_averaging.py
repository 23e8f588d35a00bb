"""Weights are averaged over the last epochs, with a learning rate of their own, and batch norm is brought up to date."""

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

losses = []
EPOCHS, SWA_START = 5, 3


def moons(count, seed):
    rng = torch.Generator().manual_seed(seed)
    side = torch.arange(count) % 2
    angle = torch.rand(count, generator=rng) * 3.14
    x = torch.stack([angle.cos() + side, (1 - 2 * side) * angle.sin() + 0.5 * side], 1)
    return TensorDataset(x + 0.1 * torch.randn(count, 2, generator=rng), side)


def step(model, criterion, optimizer, batch):
    x, y = batch
    optimizer.zero_grad(set_to_none=True)
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def evaluate(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            correct += int((model(x).argmax(1) == y).sum())
    model.train()
    return correct / len(loader.dataset)


torch.manual_seed(53)
model = nn.Sequential(nn.Linear(2, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2))
train_loader = DataLoader(moons(320, 1), batch_size=32, shuffle=True)
test_loader = DataLoader(moons(80, 2), batch_size=40)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
swa_model = AveragedModel(model)
swa_scheduler = SWALR(optimizer, swa_lr=0.02, anneal_epochs=1)

for epoch in range(EPOCHS):
    running = torch.zeros(())
    for batch in train_loader:
        loss = step(model, criterion, optimizer, batch)
        losses.append(loss.item())
        running += loss
    if epoch >= SWA_START:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
    print(epoch, running.item() / len(train_loader))

update_bn(train_loader, swa_model)
print("averaged:", evaluate(swa_model, test_loader), "last:", evaluate(model, test_loader))
