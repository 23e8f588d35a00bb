"""How far a tensor is from what it should be."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.linalg import vector_norm

from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class Distance:
    """`gap` is the norm of the difference, inf where a number is not finite that should be.

    `norm` is that of the right numbers, and `nan` tells that a number is NaN which should be none.
    """

    gap: float
    norm: float
    nan: bool = False

    def error(self, least: float = 0.0) -> float:
        """The gap relative to the norm, or to `least` if that is more; where nothing should be, 1 for anything."""
        if math.isinf(self.gap):
            return math.inf
        norm = max(self.norm, least)
        return self.gap / norm if norm else float(self.gap > 0)


def distance(real: Tensor, exact: Tensor) -> Distance:
    """The distance of `real` from `exact`, both of the same shape. Where `exact` is not finite nothing is compared."""
    gap, norm = _norms(real.to(exact.dtype) - exact, exact)
    if math.isfinite(gap + norm):
        return Distance(gap, norm)
    valid = exact.isfinite()
    off = valid & ~real.isfinite()
    if bool(off.any()):
        return Distance(math.inf, norm, bool((off & real.isnan()).any()))
    return Distance(*_norms((real.to(exact.dtype) - exact).where(valid, 0), exact.where(valid, 0)))


def size(tensor: Tensor) -> float:
    """The norm of the numbers of `tensor`."""
    return float(vector_norm(tensor, dtype=torch.float64))


def _norms(*tensors: Tensor) -> tuple[float, float]:
    gap, norm = torch.stack([vector_norm(tensor, dtype=torch.float64) for tensor in tensors]).tolist()
    return gap, norm
