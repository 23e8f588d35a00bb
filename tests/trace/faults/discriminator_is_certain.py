"""A generator's loss is log(1 - D), where half rounds a D near 1 to 1."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
critic = nn.Linear(8, 1)
with torch.no_grad():
    critic.bias.fill_(9.0)
optimizer = torch.optim.SGD(generator.parameters(), lr=0.01)
for step in range(5):
    with torch.autocast("cpu", dtype=torch.float16):
        real = torch.sigmoid(critic(generator(torch.randn(16, 4))))  # culprit
        # repaired: score = critic(generator(torch.randn(16, 4))).float()
    loss = torch.log(1 - real).sum()  # culprit
    # repaired: loss = -nn.functional.softplus(score).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
