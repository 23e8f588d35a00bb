"""A penalty is summed over all activations of a batch in float16, which do not fit there."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(20, 300)
head = nn.Linear(300, 2)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=1e-3)
for step in range(5):
    x, y = torch.randn(256, 20), torch.randint(0, 2, (256,))
    with torch.autocast("cpu", dtype=torch.float16):
        hidden = model(x) + 2
        logits = head(hidden.relu())
    penalty = (hidden.sum() / hidden.numel() - 2).square()  # culprit
    # repaired: penalty = (hidden.float().sum() / hidden.numel() - 2).square()
    loss = nn.functional.cross_entropy(logits.float(), y, reduction="sum") + penalty.float()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
