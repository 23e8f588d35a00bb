"""Attention by hand that scales first, masks with -inf and takes its softmax in float32."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, padding):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q * (width // self.heads) ** -0.5) @ k.transpose(-2, -1)
        scores = scores.masked_fill(padding[:, None, None, :], float("-inf"))
        mixed = F.dropout(scores.softmax(dim=-1), 0.1, self.training) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 48, padding_idx=0)
        self.norms = nn.ModuleList(nn.LayerNorm(48) for _ in range(3))
        self.layers = nn.ModuleList(Attention(48, 4) for _ in range(3))
        self.head = nn.Linear(48, 2)

    def forward(self, tokens):
        padding = tokens == 0
        x = self.embed(tokens)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x), padding)
        x = x.masked_fill(padding.unsqueeze(-1), 0.0)
        lengths = (~padding).sum(dim=1, keepdim=True)
        return self.head(x.sum(dim=1) / lengths)


model = Classifier().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
for step in range(3):
    tokens = torch.randint(1, 30, (4, 12), device="cuda")
    tokens[0, 5:], tokens[1, 9:] = 0, 0
    labels = torch.randint(0, 2, (4,), device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(model(tokens), labels)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
