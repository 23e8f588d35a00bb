"""Histograms of exponents, computed on the tensors' device without synchronisation."""

from __future__ import annotations

import torch
from torch import Tensor

LOWEST, HIGHEST = -149, 127
"""floor(log2) of the smallest and of the largest number of float32."""
ZERO, NONFINITE = HIGHEST - LOWEST + 1, HIGHEST - LOWEST + 2
WIDTH = NONFINITE + 1
"""The bins of one tensor: one for each exponent from `LOWEST` on, then `ZERO` and `NONFINITE`."""


def bins(numbers: Tensor) -> Tensor:
    """The bin of each of `numbers`: int64, of the same shape."""
    single = numbers.float()
    exponents = torch.frexp(single).exponent.long() - (1 + LOWEST)
    exponents = torch.where(single == 0, ZERO, exponents)
    return torch.where(single.isfinite(), exponents, NONFINITE)


def count(indices: Tensor, table: Tensor) -> Tensor:
    """Add to `table`, int64, the number of occurrences of each index in `indices`; both are one-dimensional."""
    return table.index_add_(0, indices, torch.ones_like(indices))


def exponents(counts: list[int]) -> dict[int, int]:
    """The exponents that occur, with their counts, from the `WIDTH` counts of a tensor."""
    return {LOWEST + index: count for index, count in enumerate(counts[:ZERO]) if count}
