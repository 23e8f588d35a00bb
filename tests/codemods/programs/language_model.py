"""A recurrent language model: truncated backpropagation, tied weights, and a learning rate that is set by hand."""

import argparse
import math

import torch
import torch.nn as nn

parser = argparse.ArgumentParser(description="characters one after the other")
parser.add_argument("--hidden", type=int, default=24)
parser.add_argument("--bptt", type=int, default=8, help="length of a piece")
parser.add_argument("--clip", type=float, default=0.25, help="gradient clipping")
parser.add_argument("--lr", type=float, default=1.0)
args = parser.parse_args()

losses = []
torch.manual_seed(31)


class Recurrent(nn.Module):
    def __init__(self, tokens, hidden):
        super().__init__()
        self.encoder = nn.Embedding(tokens, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.decoder = nn.Linear(hidden, tokens)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens, hidden):
        outputs = []
        for token in tokens:
            hidden = self.cell(self.encoder(token), hidden)
            outputs.append(hidden)
        return self.decoder(torch.stack(outputs)), hidden

    def init_hidden(self, batch):
        return next(self.parameters()).new_zeros(batch, self.cell.hidden_size)


def repackage_hidden(h):
    return h.detach()


def get_batch(source, i):
    length = min(args.bptt, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].reshape(-1)


def batchify(seed, count, columns=6):
    steps = torch.randint(1, 3, (count, columns), generator=torch.Generator().manual_seed(seed))
    return steps.cumsum(0) % 8


train_data, val_data = batchify(1, 10 * args.bptt + 1), batchify(2, 2 * args.bptt + 1)
model = Recurrent(8, args.hidden)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)


def evaluate(source):
    model.eval()
    total = 0.0
    hidden = model.init_hidden(source.size(1))
    with torch.no_grad():
        for i in range(0, len(source) - 1, args.bptt):
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            total += len(data) * criterion(output.flatten(0, 1), targets).item()
    return total / (len(source) - 1)


def train():
    model.train()
    hidden = model.init_hidden(train_data.size(1))
    for i in range(0, len(train_data) - 1, args.bptt):
        data, targets = get_batch(train_data, i)
        hidden = repackage_hidden(hidden)
        optimizer.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output.flatten(0, 1), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        losses.append(loss.item())


best = None
for epoch in range(1, 6):
    train()
    val_loss = evaluate(val_data)
    print(f"end of epoch {epoch}: perplexity {math.exp(val_loss):.2f}")
    if best is None or val_loss < best:
        best = val_loss
    else:
        for group in optimizer.param_groups:
            group["lr"] /= 4.0
