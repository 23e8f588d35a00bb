"""The error of a tensor."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.linalg import vector_norm

from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class Distance:
    """`gap` is the norm of the error, inf if a number is not finite that should be.

    `norm` is that of the exact values; `nan` if a number is NaN that should not be.
    """

    gap: float
    norm: float
    nan: bool = False

    def error(self, least: float = 0.0) -> float:
        """The gap relative to the norm, or to `least` if that is larger; 1 for any gap from zero."""
        if math.isinf(self.gap):
            return math.inf
        norm = max(self.norm, least)
        return self.gap / norm if norm else float(self.gap > 0)


def distance(real: Tensor, exact: Tensor) -> Distance:
    """The distance of `real` from `exact`, of the same shape. Elements that are not finite in `exact` are ignored."""
    gap, norm = _norms(real.to(exact.dtype) - exact, exact)
    if math.isfinite(gap + norm):
        return Distance(gap, norm)
    valid = exact.isfinite()
    off = valid & ~real.isfinite()
    if bool(off.any()):
        return Distance(math.inf, norm, bool((off & real.isnan()).any()))
    return Distance(*_norms((real.to(exact.dtype) - exact).where(valid, 0), exact.where(valid, 0)))


def size(tensor: Tensor) -> float:
    """The norm of `tensor`."""
    return float(vector_norm(tensor, dtype=torch.float64))


def _norms(*tensors: Tensor) -> tuple[float, float]:
    gap, norm = torch.stack([vector_norm(tensor, dtype=torch.float64) for tensor in tensors]).tolist()
    return gap, norm
