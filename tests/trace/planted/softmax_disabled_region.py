"""A loss that leaves the region to be safe, but keeps half logits: probabilities of rare words become 0.

Repaired: `probabilities = torch.softmax(logits.float(), dim=-1)`
"""

import torch
from torch import nn

torch.manual_seed(0)
VOCABULARY, WIDTH = 512, 32


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.recurrent = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        nn.init.normal_(self.head.weight, std=1.2)

    def forward(self, words):
        hidden, _ = self.recurrent(self.words(words))
        return self.head(self.dropout(self.norm(hidden)))


class NegativeLogLikelihood:
    def __init__(self, smoothing=0.0):
        self.smoothing = smoothing

    def __call__(self, logits, targets):
        with torch.autocast("cuda", enabled=False):
            probabilities = torch.softmax(logits, dim=-1)  # culprit
            picked = probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
            surprise = -torch.log(picked.float())
            return surprise.mean()


model, criterion = LanguageModel().cuda(), NegativeLogLikelihood()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for step in range(3):
    words = torch.randint(0, VOCABULARY, (4, 13), device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(words[:, :-1])
        loss = criterion(logits, words[:, 1:])
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
