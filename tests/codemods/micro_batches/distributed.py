"""A distributed model in a group of one process, wrapped in any case."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

BATCH = 4


def train(ddp_model, loader, optimizer):
    for inputs, targets in loader:
        # forward
        outputs = ddp_model(inputs)
        loss = nn.functional.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    inputs = torch.randn(52, 5)
    data = TensorDataset(inputs, inputs.argmax(1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    model = nn.Linear(5, 5)
    ddp_model = DDP(model)
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.1)
    for epoch in range(13):
        sampler.set_epoch(epoch)
        train(ddp_model, loader, optimizer)


if __name__ == "__main__":
    main()
    dist.destroy_process_group()  # without the model, for whose sake PyTorch would wait for a thread of the group
