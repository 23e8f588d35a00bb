"""A transformer with attention masks, warm-up and clipping that a flag switches on."""

import math

import torch
from torch import nn

losses = []


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = (q / math.sqrt(c // self.heads)) @ k.transpose(-2, -1)
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool, device=x.device), 1)
        scores = scores.masked_fill(mask, -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Decoder(nn.Module):
    def __init__(self, vocabulary=16, width=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.attention = Attention(width, 4)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(self.norm(x + self.attention(x)))


def main(steps=50, max_norm=1.0):
    torch.manual_seed(4)
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
    for step in range(steps):
        tokens = (torch.arange(13)[None] * (step % 3 + 1) + torch.arange(8)[:, None]) % 16
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        if max_norm > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())


main()
