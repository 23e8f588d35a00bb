"""Stands in for NumPy: a tensor's `numpy()` refuses bfloat16 in PyTorch's words and else gives the numbers."""

from __future__ import annotations

import torch


def _numpy(self: torch.Tensor, *, force: bool = False) -> torch.Tensor:
    if self.dtype == torch.bfloat16:
        raise TypeError("Got unsupported ScalarType BFloat16")
    if self.requires_grad and not force:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    return self.detach().clone()


torch.Tensor.numpy = _numpy  # type: ignore[method-assign]


def concatenate(arrays: list[torch.Tensor]) -> torch.Tensor:
    """The arrays one after the other."""
    return torch.cat(arrays)
