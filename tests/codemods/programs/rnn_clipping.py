"""A recurrent language model with a carried hidden state and gradient clipping, as functions over globals."""

import torch
import torch.nn as nn

torch.manual_seed(1)
losses = []
ntokens = 12
bptt = 8


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(ntokens, 16)
        self.rnn = nn.GRU(16, 32)
        self.decoder = nn.Linear(32, ntokens)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.embed(tokens), hidden)
        return self.decoder(output).view(-1, ntokens), hidden


def repackage_hidden(h):
    """Wrap hidden states in new tensors, to detach them from their history."""
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


data = (torch.arange(51 * bptt + 1)[:, None] * torch.arange(1, 5)) % ntokens
model = Tagger()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)


def get_batch(i):
    start = i * bptt
    return data[start : start + bptt], data[start + 1 : start + 1 + bptt].reshape(-1)


def train():
    model.train()
    total_loss = 0.0
    hidden = torch.zeros(1, 4, 32)
    for batch in range(50):
        tokens, targets = get_batch(batch)
        hidden = repackage_hidden(hidden)
        model.zero_grad()
        output, hidden = model(tokens, hidden)
        loss = criterion(output, targets)
        loss.backward()

        # clip_grad_norm helps to prevent the exploding gradient problem.
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()

        total_loss += loss.item()
        losses.append(loss.item())
        if batch % 10 == 0 and batch > 0:
            print(f"| batch {batch} | loss {total_loss / 10:.2f}")
            total_loss = 0


train()
