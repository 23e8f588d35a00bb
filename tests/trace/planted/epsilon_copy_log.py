"""A pointer network with an entropy bonus: words that the source lacks have probability 0, and plus 1e-9 it is still 0.

Repaired: `smoothed = copied.float() + 1e-9`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
VOCABULARY, WIDTH = 40, 32


class CopyDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.encode = nn.Linear(WIDTH, WIDTH)
        self.decode = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.temperature = WIDTH**0.5

    def forward(self, source, target):
        memory = self.norm(F.relu(self.encode(self.embed(source))))
        query = self.decode(self.embed(target))
        scores = torch.bmm(query, memory.transpose(1, 2)) / self.temperature
        attention = torch.softmax(scores, dim=-1)
        positions = F.one_hot(source, VOCABULARY).to(attention.dtype)
        copied = torch.bmm(attention, positions)
        smoothed = copied + 1e-9  # culprit
        surprise = -torch.log(smoothed)
        return scores, (copied * surprise).sum(dim=-1)


model = CopyDecoder().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**8)
for step in range(3):
    source = torch.randint(0, VOCABULARY, (3, 12), device="cuda")
    target = source.roll(1, dims=1)
    place = torch.arange(12, device="cuda").expand(3, 12)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        scores, entropy = model(source, target)
        loss = F.cross_entropy(scores.flatten(0, 1), place.flatten()) - 0.1 * entropy.mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    grad_norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
