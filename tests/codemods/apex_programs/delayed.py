"""Gradients of several micro-batches, unscaled once."""

import apex
import torch
from torch import nn


def main():
    """Train and return the losses."""
    torch.manual_seed(0)
    batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(50)]
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    net, optimizer = apex.amp.initialize(net, optimizer, enabled=True, opt_level="O2", keep_batchnorm_fp32=True)
    return train(net, optimizer, batches, every=2)


def train(net, optimizer, batches, every):
    """Accumulate over `every` micro-batches."""
    losses = []
    # apex wants a step before the first delayed one
    optimizer.zero_grad()
    optimizer.step()
    for index, (inputs, targets) in enumerate(batches):
        loss = nn.functional.mse_loss(net(inputs), targets) / every
        delay_unscale = (index + 1) % every != 0
        with apex.amp.scale_loss(loss, optimizer, delay_unscale=delay_unscale) as scaled_loss:
            scaled_loss.backward()
            if not delay_unscale:
                # all gradients are here now
                assert all(p.grad is not None for p in net.parameters())
        if (index + 1) % every == 0:
            nn.utils.clip_grad_norm_(apex.amp.master_params(optimizer), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    losses = main()
