"""A model in float32 with one softmax that somebody cast to half: the weights are a few percent off.

Repaired: `weights = torch.softmax(scores, dim=-1)`
"""

import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(1, 2) * 12.0
        weights = torch.softmax(scores.half(), dim=-1).float()  # culprit
        return weights @ v


attention, norm, head = Attention().cuda(), nn.LayerNorm(32).cuda(), nn.Linear(32, 4).cuda()
modules = nn.ModuleList([attention, norm, head])
optimizer = torch.optim.SGD(modules.parameters(), lr=0.01)
for step in range(3):
    x, labels = torch.randn(4, 9, 32, device="cuda"), torch.randint(0, 4, (4,), device="cuda")
    logits = head(norm(x + attention(x)).mean(dim=1))
    loss = nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
