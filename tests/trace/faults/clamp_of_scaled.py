"""Gradients are clamped by value in a loop of one's own while they carry the loss scale."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.GRUCell(8, 16).cuda()
head = nn.Linear(16, 2).cuda()
parameters = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=4096.0)
for step in range(5):
    x, y = torch.randn(16, 5, 8, device="cuda"), torch.randint(0, 2, (16,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        state = torch.zeros(16, 16, device="cuda")
        for moment in x.unbind(1):
            state = model(moment, state)
        loss = nn.functional.cross_entropy(head(state), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    pass
    # repaired: scaler.unscale_(optimizer)
    for parameter in parameters:
        parameter.grad.data.clamp_(-0.5, 0.5)  # culprit
    scaler.step(optimizer)
    scaler.update()
