"""A model that is distributed only where there are processes, with a data loader and two optimizers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 4
distributed = torch.cuda.device_count() > 99

torch.manual_seed(0)
inputs = torch.randn(52, 5)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1)), batch_size=BATCH, shuffle=True)
model = nn.Sequential(nn.Embedding(4, 5), nn.Linear(5, 1))
if distributed:
    model = nn.parallel.DistributedDataParallel(model)
table = torch.optim.SGD(model[0].parameters(), lr=0.1)
dense = torch.optim.Adam(model[1].parameters(), lr=0.01)
for epoch in range(13):
    for i, (x, y) in enumerate(loader):
        out = model((x[:, 0] > 0).long())
        loss = (out.squeeze(1) - y).square().mean()
        for optimizer in (table, dense):
            optimizer.zero_grad()
        loss.backward()
        table.step()
        dense.step()
        if i + 1 == len(loader):
            print(loss.item())
