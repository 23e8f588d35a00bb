"""A mixture of experts chooses by bfloat16 probabilities."""

import torch
from torch import nn

torch.manual_seed(0)


class Experts(nn.Module):
    def __init__(self, width=16, count=8):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, x):
        scores = self.router(x).bfloat16()
        # repaired: scores = self.router(x).float()
        probability, chosen = torch.softmax(scores, -1, dtype=scores.dtype).max(-1)  # culprit
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            here = chosen == number
            out[here] = expert(x[here]).to(out.dtype) * probability[here, None].to(out.dtype)
        return x + out


model = nn.Sequential(nn.Linear(16, 16), Experts(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    x, y = torch.randn(64, 16), torch.randint(0, 3, (64,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = nn.functional.cross_entropy(out.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
