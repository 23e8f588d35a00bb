"""A bfloat16 model is fine-tuned by AdamW at a learning rate that bfloat16 weights do not notice."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4)).bfloat16()
# repaired: model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0)
for step in range(5):
    x, y = torch.randn(32, 12), torch.randint(0, 4, (32,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # culprit
