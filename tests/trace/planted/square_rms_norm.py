"""A transformer whose RMS norm squares large activations in half; float32 would take them, and rsqrt hides the inf.

Repaired: `squares = hidden.float() * hidden.float()`
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
VOCABULARY, WIDTH, HEADS = 97, 64, 4


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, hidden):
        squares = hidden * hidden  # culprit
        mean = squares.mean(dim=-1, keepdim=True)
        scaled = hidden * torch.rsqrt(mean + 1e-5)
        return scaled * self.weight


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden):
        batch, length, _ = hidden.shape
        q, k, v = self.qkv(self.attention_norm(hidden)).chunk(3, dim=-1)
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        hidden = hidden + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH)))
        return hidden + self.dropout(self.mlp(self.mlp_norm(hidden)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.lift = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        with torch.no_grad():
            self.lift.bias[3] = 700.0  # one channel carries most of the norm, as in trained language models

    def forward(self, tokens):
        hidden = self.lift(self.tokens(tokens) * math.sqrt(WIDTH))
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for step in range(3):
    tokens = torch.randint(0, VOCABULARY, (2, 17), device="cuda")
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
