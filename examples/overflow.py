"""Trains attention in which an exponential overflows in float16, so that nothing is learned.

`amplint trace examples/overflow.py` names the line. Repaired: `weights = torch.softmax(scores.float(), dim=-1)`, and
without the division.
"""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.q(x) @ self.k(x).transpose(1, 2) * 40
        weights = torch.exp(scores.half())
        weights = weights / weights.sum(-1, keepdim=True)
        return weights @ self.v(x).to(weights.dtype)


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), Attention(32), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(10):
        x = torch.randn(8, 12, 16)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = (model(x) - x.sum(-1, keepdim=True)).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
