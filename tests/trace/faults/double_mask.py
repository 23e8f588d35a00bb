"""Masks of the lowest number are added up to -inf, and a padded row becomes NaN.

NVIDIA-NeMo/Automodel pull request 2658.
"""

import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, 5)

    def forward(self, x, padding):
        q, k, v = self.qkv(x).chunk(3, -1)
        lowest = torch.finfo(q.dtype).min
        causal = torch.full((x.shape[1], x.shape[1]), lowest, dtype=q.dtype, device=x.device).triu(1)
        keys, queries = padding[:, None, :].to(q.dtype) * lowest, padding[:, :, None].to(q.dtype) * lowest
        mask = causal + keys + queries  # culprit
        # repaired: mask = torch.minimum(causal, torch.minimum(keys, queries))
        scores = q @ k.mT / 4 + mask
        # repaired: scores = (q @ k.mT / 4).masked_fill(mask < 0, lowest)
        return self.out(scores.softmax(-1) @ v)


model = Attention().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for step in range(5):
    x, y = torch.randn(4, 10, 16, device="cuda"), torch.randint(0, 5, (40,), device="cuda")
    padding = torch.arange(10, device="cuda") < torch.tensor([0, 3, 5, 10], device="cuda")[:, None]
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(x, padding)
        loss = nn.functional.cross_entropy(out.flatten(0, 1), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
