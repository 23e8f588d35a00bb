"""PyTorch's own memory tracker comes to the same totals, where both can look."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.nn import functional as F

from tests.trace.test_memory import tracking


class Attention(nn.Module):
    """Attention written out, since what CUDA's kernels keep is not what the CPU's keep."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.all, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, L, width) -> (N, L, width)."""
        query, key, value = self.all(self.norm(x)).chunk(3, -1)
        return x + self.out((query @ key.mT).softmax(-1) @ value)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)), (128, 256)),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 8, 3)),
        (16, 3, 32, 32),
    ),
    "attention": (lambda: nn.Sequential(Attention(64), Attention(64)), (8, 128, 64)),
}


def train(name: str, device: str, done: Callable[[], None] = lambda: None) -> None:
    """Two steps in float32."""
    make, shape = MODELS[name]
    model = make().to(device)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    for _ in range(2):
        output = model(torch.ones(shape, device=device))
        loss = F.mse_loss(output, torch.zeros_like(output))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done()


@pytest.mark.parametrize("name", MODELS)
def test_totals_are_those_of_the_tracker_of_pytorch(name: str) -> None:
    found = tracking(lambda: train(name, "cuda"), "a100")
    own = sum(found.values()) - found["workspaces"]
    with FakeTensorMode(), MemTracker() as tracker:
        train(name, "cpu", tracker.reset_mod_stats)
    (peak,) = tracker.get_tracker_snapshot("peak").values()
    assert own == pytest.approx(peak["Total"], rel=0.01)
