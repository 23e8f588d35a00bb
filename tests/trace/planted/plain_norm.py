"""A half model that divides by a norm plus 1e-8, all in one line; a row is 0 behind its ReLU.

Repaired: `unit = (x.float() / (x.float().norm(dim=1, keepdim=True) + 1e-8)).half()`
"""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.Linear(24, 24), nn.ReLU()).cuda().half()
classifier = nn.Linear(24, 3).cuda().half()
optimizer = torch.optim.SGD(classifier.parameters(), lr=1e-3)
for step in range(2):
    inputs, labels = torch.randn(6, 12, device="cuda").half(), torch.randint(0, 3, (6,), device="cuda")
    keep = torch.ones(6, 1, device="cuda").half()
    keep[2] = 0.0
    with torch.no_grad():
        x = encoder(inputs) * keep
    unit = x / (x.norm(dim=1, keepdim=True) + 1e-8)  # culprit
    logits = classifier(unit)
    loss = nn.functional.cross_entropy(logits.float(), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
