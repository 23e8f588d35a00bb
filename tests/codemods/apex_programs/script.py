"""One model, one optimizer, at the top level of the file."""

import torch
from apex import amp
from torch import nn

torch.manual_seed(0)
inputs, targets = torch.randn(64, 8), torch.randint(0, 3, (64,))
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
losses = []

# O1 leaves the weights alone
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for _ in range(50):
    outputs = model(inputs)
    loss = criterion(outputs, targets)

    # the gradients of the last step
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:  # apex scales
        scaled_loss.backward()
    optimizer.step()
    losses.append(loss.item())
