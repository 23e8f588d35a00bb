"""Trains a small regressor in float32, on a GPU where there is one.

Its losses, and those of its conversion to mixed precision, which is not written anywhere:

    python examples/regression.py
    amplint convert --to amp --dtype bfloat16 --device auto - < examples/regression.py | python -
"""

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
features = torch.randn(1024, 32, device=device)
targets = features.sum(dim=1, keepdim=True)
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(5):
    for batch, wanted in zip(features.split(64), targets.split(64), strict=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), wanted)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
