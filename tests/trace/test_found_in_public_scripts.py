"""What checks say of lines like those of public scripts, where nothing is wrong."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from amplint.trace import watch
from amplint.trace.dry import dry_run
from amplint.trace.findings import findings
from amplint.trace.gpus import GPUS


class Normed(nn.Module):
    """Explicitly in bfloat16, as some language models are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = F.linear(F.rms_norm(x, (8,)), self.inner.weight.to(x.dtype))
        return x


def _codes(model: nn.Module, inputs: torch.Tensor) -> set[str]:
    with dry_run(GPUS["a100"]), watch(steps=1, skip=0) as record:
        model, inputs = model.cuda(), inputs.cuda()
        model(inputs).float().sum().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    return {found.code for found in findings(record)}


def test_a_norm_that_casts_inside_is_no_churn() -> None:
    assert "AMP810" not in _codes(Normed(), torch.randn(4, 8).bfloat16())


class Enlarged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(self.conv(x).half(), scale_factor=2, mode="nearest")


def test_nearest_neighbours_are_copied_and_lose_nothing() -> None:
    assert "AMP802" not in _codes(Enlarged(), torch.randn(2, 1, 4, 4))


class Squared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(F.linear(x, self.inner.weight.to(x.dtype))).square()


def test_squares_in_bfloat16_keep_their_range_and_digits() -> None:
    inputs = torch.randn(4, 8)
    assert "AMP802" not in _codes(Squared(), inputs.bfloat16())
    assert "AMP802" in _codes(Squared(), inputs.half())


def test_what_prepares_a_training_is_not_told() -> None:
    with dry_run(GPUS["a100"]), watch(steps=2, skip=0) as record:
        model = nn.Linear(8, 8).cuda()
        model.weight.data.copy_(1 / model.weight.data.half().exp())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(4, 8).cuda()).sum().backward()
            optimizer.step()
    assert record.steps == 2
    assert not findings(record)
