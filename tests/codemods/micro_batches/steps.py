"""A loop that counts steps and draws its batches, and stops early."""

import torch
from torch import nn

BATCH = 4


def batches():
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 7, (20000,), generator=generator)
    while True:
        for chunk in tokens.split(BATCH * 9):
            yield chunk.view(BATCH, 9) if len(chunk) == BATCH * 9 else tokens[: BATCH * 9].view(BATCH, 9)


class Bigrams(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 7)

    def forward(self, tokens):
        return self.table(tokens)


def main(total_steps=50 * 16 // BATCH):
    torch.manual_seed(0)
    stream = batches()
    model = Bigrams()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(total_steps):
        tokens = next(stream)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        for p in model.parameters():
            p.grad = None
        loss.backward()
        for p in model.parameters():
            p.grad.clamp_(-0.1, 0.1)
        opt.step()
        if loss.item() < 1e-9:
            break


main()
