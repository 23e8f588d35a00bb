"""O0 is float32: nothing of apex remains, and nothing comes in its place."""

import torch
from apex import amp
from torch import nn

torch.manual_seed(0)
inputs, targets = torch.randn(64, 8), torch.randn(64, 1)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O0")
losses = []
for _ in range(50):
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
    optimizer.step()
    losses.append(loss.item())
