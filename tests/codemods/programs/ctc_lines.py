"""Lines of text are read with CTC: the alphabet's log-probabilities over time, and a length for each line."""

import torch
from torch import nn

BLANK = 0
ALPHABET = 6
losses = []


class Reader(nn.Module):
    def __init__(self, height=8, hidden=16):
        super().__init__()
        self.columns = nn.Conv1d(height, hidden, kernel_size=3, padding=1)
        self.mix = nn.Conv1d(hidden, hidden, kernel_size=3, padding=1)
        self.classify = nn.Linear(hidden, ALPHABET)

    def forward(self, lines):
        x = torch.relu(self.columns(lines))
        x = torch.relu(self.mix(x)).permute(2, 0, 1)  # time first
        return self.classify(x).log_softmax(dim=2)


def make_batch(rng, size=8, letters=4, stretch=4):
    text = torch.randint(1, ALPHABET, (size, letters), generator=rng)
    strokes = torch.nn.functional.one_hot(text, 8).float().repeat_interleave(stretch, dim=1)
    noise = 0.1 * torch.randn(strokes.shape, generator=rng)
    return (strokes + noise).transpose(1, 2), text, torch.full((size,), letters)


def greedy(log_probs):
    best = log_probs.argmax(dim=2).t()
    return [[c for c, before in zip(row, [BLANK] + row[:-1]) if c != before and c != BLANK] for row in best.tolist()]


rng = torch.Generator().manual_seed(21)
torch.manual_seed(21)
reader = Reader()
criterion = nn.CTCLoss(blank=BLANK, zero_infinity=True)
optimizer = torch.optim.Adam(reader.parameters(), lr=2e-3)

for iteration in range(50):
    lines, text, text_lengths = make_batch(rng)
    optimizer.zero_grad()
    log_probs = reader(lines)
    frames = torch.full((lines.size(0),), log_probs.size(0), dtype=torch.long)
    cost = criterion(log_probs, text, frames, text_lengths)
    cost.backward()
    optimizer.step()
    losses.append(cost.item())

reader.eval()
with torch.no_grad():
    lines, text, _ = make_batch(rng)
    guessed = greedy(reader(lines))
print("read", sum(a == b for a, b in zip(guessed, text.tolist())), "of", len(guessed))
