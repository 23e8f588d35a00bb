"""Two models and one optimizer, gradients that are clipped by value, and a loss that is looked at scaled."""

import torch
from apex import amp
from torch import nn

torch.manual_seed(0)
inputs, targets = torch.randn(64, 8), torch.randn(64, 1)
encoder, head = nn.Linear(8, 16), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
[encoder, head], optimizer = amp.initialize([encoder, head], optimizer, opt_level="O1", loss_scale="dynamic")
losses = []
for _ in range(50):
    optimizer.zero_grad()
    hidden = torch.relu(encoder(inputs))
    loss = nn.functional.mse_loss(head(hidden), targets)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        assert torch.isfinite(scaled_loss)
        scaled_loss.backward()
    torch.nn.utils.clip_grad_value_(amp.master_params(optimizer), 0.5)
    optimizer.step()
    losses.append(loss.item())
