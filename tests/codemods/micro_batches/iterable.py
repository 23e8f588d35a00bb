"""A stream of batches without a length."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

BATCH = 4


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(3)
        for _ in range(52):
            x = torch.randn(6, generator=generator)
            yield x, x.prod()


def train_one_epoch(model, criterion, stream, optimizer):
    total = 0.0
    for step, (x, y) in enumerate(stream, start=1):
        prediction = model(x).squeeze(1)
        loss = criterion(prediction, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
        if step % 5 == 0:
            print(f"{step}: {total / step:.4f}")


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(13):
    train_one_epoch(model, nn.SmoothL1Loss(), DataLoader(Stream(), batch_size=BATCH), optimizer)
