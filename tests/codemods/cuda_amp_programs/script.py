"""A script written when mixed precision was in torch.cuda.amp: clipping, a flag, a checkpoint that is read again."""

import os
import sys

import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast

use_amp = "--no-amp" not in sys.argv
losses = []
torch.manual_seed(5)


def build():
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
    return net, torch.optim.Adam(net.parameters(), lr=5e-3), GradScaler(enabled=use_amp)


def batch(step):
    rng = torch.Generator().manual_seed(step)
    labels = torch.randint(0, 3, (32,), generator=rng)
    return torch.randn(32, 6, generator=rng) + labels[:, None], labels


def run(first, last, net, optimizer, scaler):
    for step in range(first, last):
        inputs, labels = batch(step)
        optimizer.zero_grad(set_to_none=True)
        with autocast(enabled=use_amp):  # forward and loss
            loss = nn.functional.cross_entropy(net(inputs).float(), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())


net, optimizer, scaler = build()
if "--interrupt" in sys.argv:
    run(0, 20, net, optimizer, scaler)
    parts = {"net": net, "optimizer": optimizer, "scaler": scaler}
    torch.save({name: part.state_dict() for name, part in parts.items()}, "last.pt")
    net, optimizer, scaler = build()
    saved = torch.load("last.pt")
    net.load_state_dict(saved["net"])
    optimizer.load_state_dict(saved["optimizer"])
    scaler.load_state_dict(saved["scaler"])
    os.remove("last.pt")
run(len(losses), 50, net, optimizer, scaler)
