"""Transfer: first the new head is trained alone, then everything, with a smaller rate for the pretrained body."""

from collections import OrderedDict

import torch
from torch import nn, optim

losses = []


def make_network(classes):
    body = nn.Sequential(OrderedDict(conv1=nn.Conv2d(1, 4, 3), act1=nn.ReLU(), conv2=nn.Conv2d(4, 8, 3), act2=nn.ReLU()))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.0), nn.Linear(32, classes))
    return nn.ModuleDict({"body": body, "head": head})


def forward(network, images):
    return network["head"](network["body"](images))


def set_trainable(module, value):
    for parameter in module.parameters():
        parameter.requires_grad_(value)


def stripes(generator, count=16):
    kinds = torch.randint(0, 2, (count,), generator=generator)
    pattern = (torch.arange(10) % 2).float().expand(10, 10)
    images = torch.where(kinds[:, None, None] == 0, pattern, pattern.t())
    return images[:, None] + 0.4 * torch.randn(count, 1, 10, 10, generator=generator), kinds


def run_phase(network, optimizer, steps, generator, criterion):
    for _ in range(steps):
        images, kinds = stripes(generator)
        optimizer.zero_grad()
        output = forward(network, images)
        loss = criterion(output, kinds)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def accuracy(network, generator):
    network.eval()
    with torch.no_grad():
        images, kinds = stripes(generator, 64)
        predicted = forward(network, images).argmax(1)
    network.train()
    return (predicted == kinds).float().mean().item()


def main():
    torch.manual_seed(51)
    generator = torch.Generator().manual_seed(52)
    network = make_network(2)
    criterion = nn.CrossEntropyLoss()

    # phase 1: the head alone
    set_trainable(network["body"], False)
    head_optimizer = optim.Adam(filter(lambda p: p.requires_grad, network.parameters()), lr=1e-2)
    run_phase(network, head_optimizer, 20, generator, criterion)
    before = accuracy(network, generator)

    # phase 2: all of it
    set_trainable(network["body"], True)
    optimizer = optim.SGD(
        [
            {"params": network["body"].parameters(), "lr": 2e-2},  # gently
            {"params": network["head"].parameters()},
        ],
        lr=1e-1,
        momentum=0.8,
    )
    run_phase(network, optimizer, 30, generator, criterion)
    print(f"{before:.2f} -> {accuracy(network, generator):.2f}")


if __name__ == "__main__":
    main()
