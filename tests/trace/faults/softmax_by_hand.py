"""An attention pooling that normalises exponentials without taking off the largest score."""

import torch
from torch import nn

torch.manual_seed(0)


class Pooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.head = nn.Linear(24, 1), nn.Linear(24, 5)

    def forward(self, frames):
        score = 40 * self.score(frames).squeeze(-1)
        weight = score.exp()  # culprit
        # repaired: weight = (score.float() - score.float().amax(-1, keepdim=True)).exp()
        weight = weight / weight.sum(-1, keepdim=True)
        return self.head((weight.unsqueeze(-1) * frames).sum(1))


model = Pooling()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    frames, label = torch.randn(8, 30, 24), torch.randint(0, 5, (8,))
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(frames)
    loss = nn.functional.cross_entropy(logits.float(), label, reduction="sum")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
