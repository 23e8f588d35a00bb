"""A momentum encoder is given new half weights that round to the old ones, as MoCo's code is written."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
query = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))
key = copy.deepcopy(query).half().requires_grad_(False)
# repaired: key = copy.deepcopy(query).requires_grad_(False)
optimizer = torch.optim.SGD(query.parameters(), lr=0.03)
momentum = 0.9995
for step in range(5):
    x = torch.randn(32, 12)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = nn.functional.normalize(query(x).float(), dim=-1)
        with torch.no_grad():
            for slow, fast in zip(key.parameters(), query.parameters()):
                slow.data = slow.data * momentum + fast.data.to(slow.dtype) * (1 - momentum)  # culprit
            wanted = nn.functional.normalize(key(x).float(), dim=-1)
    loss = nn.functional.cross_entropy(out @ wanted.T / 0.2, torch.arange(32))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
