"""A floor that is made as a tensor in half: 1e-8 is 0 from the start, long before anything is divided by it.

Repaired: `floor = torch.full_like(totals, 1e-8, dtype=torch.float32)`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Router(nn.Module):
    """Sends tokens to experts by sparse, normalised gates."""

    def __init__(self, width, experts):
        super().__init__()
        self.gates = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, tokens):
        gates = F.relu(self.gates(tokens))
        totals = gates.amax(dim=-1, keepdim=True)
        floor = torch.full_like(totals, 1e-8)  # culprit
        divisors = torch.maximum(totals, floor)
        shares = gates / divisors
        outputs = torch.stack([expert(tokens) for expert in self.experts], dim=-1)
        mixed = (outputs * shares.unsqueeze(-2)).sum(dim=-1)
        return mixed


class Model(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.norm = nn.LayerNorm(width)
        self.router = Router(width, 3)
        self.head = nn.Linear(width, 20)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        hidden = hidden + self.router(self.norm(hidden))
        return self.head(hidden)


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=128.0)
for step in range(3):
    tokens = torch.randint(0, 20, (4, 11), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 20), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
