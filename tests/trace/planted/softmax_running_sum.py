"""A streaming softmax in a bfloat16 model: its denominator grows by steps that are too small to be added.

Repaired: `denominator = denominator.float() + weight.float()`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
WIDTH = 16


class StreamingAttention(nn.Module):
    """Attends over a long sequence, one position at a time."""

    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(WIDTH) * 0.05)
        self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, sequence):
        scores = self.key(sequence) @ self.query
        weights = torch.exp(scores)
        numerator = (weights.unsqueeze(1) @ self.value(sequence)).squeeze(1)
        denominator = torch.zeros_like(weights[:, :1])
        for weight in weights.split(1, dim=1):
            denominator = denominator + weight  # culprit
        return (numerator / denominator).to(sequence.dtype)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = StreamingAttention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, sequence):
        hidden = self.norm(self.embed(sequence))
        return self.mlp(self.attention(hidden))


model = Model().cuda().bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(3):
    sequence = torch.randn(2, 600, 4, device="cuda", dtype=torch.bfloat16) + 0.5
    labels = torch.randint(0, 3, (2,), device="cuda")
    optimizer.zero_grad()
    logits = model(sequence)
    loss = F.cross_entropy(logits.float(), labels)
    loss.backward()
    optimizer.step()
