"""Layers."""

from __future__ import annotations

import torch
from torch import nn


class FrozenBatchNorm2d(nn.Module):
    """Batch normalisation by constants: (N, features, H, W) -> the same."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((num_features,), value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        scale = self.get_buffer("weight") / (self.get_buffer("running_var") + self.eps).sqrt()
        shift = self.get_buffer("bias") - self.get_buffer("running_mean") * scale
        return x * scale[:, None, None] + shift[:, None, None]
