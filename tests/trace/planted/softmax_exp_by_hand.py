"""A half model whose attention takes exponentials by hand, without subtracting the largest score.

Repaired: `powers = torch.exp(scores.float())`
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Pointer(nn.Module):
    """Attention of one query over a memory."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.width = width

    def forward(self, state, memory):
        query = self.query(state)
        keys = self.key(memory)
        scores = (keys @ query.unsqueeze(-1)).squeeze(-1) / math.sqrt(self.width)
        powers = torch.exp(scores)  # culprit
        total = powers.sum(dim=-1, keepdim=True)
        weights = (powers / total).to(memory.dtype)
        return (weights.unsqueeze(1) @ self.value(memory)).squeeze(1)


class Reader(nn.Module):
    def __init__(self, width=32, hops=2):
        super().__init__()
        self.words = nn.Embedding(60, width)
        self.hops = nn.ModuleList(Pointer(width) for _ in range(hops))
        self.norm = nn.LayerNorm(width)
        self.answer = nn.Linear(width, 8)

    def forward(self, story, question):
        memory = self.words(story)
        state = self.words(question).mean(dim=1)
        for hop in self.hops:
            state = self.norm(state + hop(state, memory))
        return self.answer(state)


model = Reader().cuda()
with torch.no_grad():
    model.hops[1].query.bias[0] = 9.0
    model.hops[1].key.bias[0] = 8.0
master = [parameter.detach().float().clone().requires_grad_() for parameter in model.parameters()]
model = model.half()
optimizer = torch.optim.SGD(master, lr=1e-2)
for step in range(3):
    story, question = torch.randint(0, 60, (4, 20), device="cuda"), torch.randint(0, 60, (4, 5), device="cuda")
    answers = torch.randint(0, 8, (4,), device="cuda")
    logits = model(story, question)
    loss = F.cross_entropy(logits.float(), answers)
    model.zero_grad()
    (loss * 128.0).backward()
    for copy, parameter in zip(master, model.parameters(), strict=True):
        copy.grad = torch.nan_to_num(parameter.grad.float() / 128.0, 0.0, 0.0, 0.0)
    optimizer.step()
    with torch.no_grad():
        for copy, parameter in zip(master, model.parameters(), strict=True):
            parameter.copy_(copy)
