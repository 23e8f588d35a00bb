"""Three steps of a causal language model under float16 autocast, with a GradScaler and clipped gradients."""

import torch
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH, LENGTH, TEXTS = 16384, 512, 512, 8


class Block(nn.Module):
    """Causal attention and a feed-forward part, each behind a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, L, WIDTH) -> (N, L, WIDTH)."""
        query, key, value = (
            part.unflatten(-1, (8, -1)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *(Block() for _ in range(6)), nn.LayerNorm(WIDTH)).cuda()
head = nn.Linear(WIDTH, WORDS, bias=False).cuda()
parameters = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=3e-4)
scaler = torch.amp.GradScaler("cuda")
for _ in range(3):
    tokens = torch.randint(WORDS, (TEXTS, LENGTH + 1)).cuda()
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        logits = head(model(tokens[:, :-1]))
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(parameters, 1.0)
    scaler.step(optimizer)
    scaler.update()
print(torch.cuda.max_memory_allocated())
