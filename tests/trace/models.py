"""Small models and their training steps, for tests of the tracer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Cnn(nn.Module):
    """Two convolutions and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.body = nn.Conv2d(8, 8, 3, stride=2)
        self.head = nn.Linear(8, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> (N, 4)."""
        return self.head(F.relu(self.body(self.stem(images))).mean((2, 3)))


class Transformer(nn.Module):
    """An embedding, two encoder layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(8, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(N, L) -> (N, 4)."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


class Recurrent(nn.Module):
    """A GRU and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(3, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        """(N, L, 3) -> (N, 4)."""
        return self.head(self.cell(sequence)[0][:, -1])


class Memory(nn.Module):
    """An LSTM, step by step since CPUs have none for float16, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        """(N, L, 3) -> (N, 4)."""
        state = None
        for x in sequence.unbind(1):
            state = self.cell(x, state)
        assert state is not None
        return self.head(state[0])


class Checkpointed(nn.Module):
    """Two blocks that are computed again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2))
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, 8) -> (N, 4)."""
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def images() -> torch.Tensor:
    """(4, 3, 8, 8)."""
    return torch.randn(4, 3, 8, 8)


def tokens() -> torch.Tensor:
    """(4, 6)."""
    return torch.randint(0, 16, (4, 6))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "cnn": (Cnn, images),
    "transformer": (Transformer, tokens),
    "recurrent": (Recurrent, lambda: torch.randn(4, 6, 3)),
    "lstm": (Memory, lambda: torch.randn(4, 6, 3)),
    "checkpointed": (Checkpointed, lambda: torch.randn(4, 8)),
}


def train(name: str, dtype: torch.dtype, steps: int = 3, *, scaled: bool = False) -> tuple[nn.Module, list[float]]:
    """Train a model for `steps` steps in regions of `dtype`; the model and the losses."""
    torch.manual_seed(0)
    kind, batch = MODELS[name]
    model = kind()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=scaled)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = F.cross_entropy(model(batch()), torch.tensor([0, 1, 2, 3]))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return model, losses
