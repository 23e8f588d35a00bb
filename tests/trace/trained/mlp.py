"""Two steps of a perceptron in float32 with AdamW."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    data, target = torch.randn(512, 1024).cuda(), torch.randn(512, 1024).cuda()
    loss = nn.functional.mse_loss(model(data), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(torch.cuda.max_memory_allocated())
