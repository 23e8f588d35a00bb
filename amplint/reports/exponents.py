"""Shares of numbers below, in and above a format's range, by exponent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from amplint.records import dataclass
from amplint.torchlib.constants import CONSTANTS
from amplint.trace.data import Histogram

_USUAL_SCALE = 16
"""The exponent of the loss scale that PyTorch's gradient scaler starts with."""


FLOAT8 = {
    "float8_e4m3fn": (448.0, 2.0**-6, 2.0**-9),
    "float8_e4m3fnuz": (240.0, 2.0**-7, 2.0**-10),
    "float8_e5m2": (57344.0, 2.0**-14, 2.0**-16),
    "float8_e5m2fnuz": (57344.0, 2.0**-15, 2.0**-17),
}
"""Format -> its largest number, its smallest with all digits, and its smallest."""


@dataclass(frozen=True)
class Range:
    """A format's exponents floor(log2|x|): normal from `normal` on, subnormal (fewer digits) below it."""

    dtype: str
    smallest: int
    normal: int
    largest: int

    @classmethod
    def of(cls, dtype: str) -> Range:
        """The range of the floating format named `dtype`."""
        if dtype in FLOAT8:
            most, tiny, least = FLOAT8[dtype]
            return cls(dtype, _exponent(least), _exponent(tiny), _exponent(most))
        tiny, eps, most = (CONSTANTS[f"torch.finfo.{dtype}.{name}"] for name in ("tiny", "eps", "max"))
        return cls(dtype, _exponent(tiny * eps), _exponent(tiny), _exponent(most))


@dataclass(frozen=True)
class Shares:
    """The number of nonzero values, and how many of them a format flushes to 0, holds as subnormals, or overflows.

    Rounding is decided by the exponent: everything below half the smallest subnormal becomes 0.
    """

    numbers: int
    lost: int
    coarse: int
    over: int


def shares(exponents: Counter[int], of: Range) -> Shares:
    """The shares in the format `of` for values with these exponents."""
    lost = sum(count for exponent, count in exponents.items() if exponent < of.smallest - 1)
    coarse = sum(count for exponent, count in exponents.items() if of.smallest - 1 <= exponent < of.normal)
    over = sum(count for exponent, count in exponents.items() if exponent > of.largest)
    return Shares(exponents.total(), lost, coarse, over)


def summed(histograms: Iterable[Histogram], *, unscaled: bool = False) -> Counter[int]:
    """The exponents of all `histograms`; with `unscaled`, divided by the loss scale that they carry."""
    total: Counter[int] = Counter()
    for histogram in histograms:
        shift = round(math.log2(histogram.scale)) if unscaled and 0 < histogram.scale < math.inf else 0
        for exponent, count in histogram.exponents.items():
            total[exponent - shift] += count
    return total


def by_name(histograms: Iterable[Histogram]) -> dict[str, Counter[int]]:
    """Tensors with their exponents, summed over loss scales."""
    names: dict[str, Counter[int]] = {}
    for histogram in histograms:
        if histogram.exponents:
            names.setdefault(histogram.name, Counter()).update(histogram.exponents)
    return names


def scales(histograms: Iterable[Histogram]) -> list[float]:
    """The loss scales that gradients carry, in order; empty if they carry none."""
    return sorted({histogram.scale for histogram in histograms} - {1.0})


def rescaled(gradients: Sequence[Histogram]) -> tuple[Counter[int], float]:
    """The exponents of gradients under another loss scale, and that scale: 1.0 if they carry one, else the default."""
    bare = summed(gradients, unscaled=True)
    if scales(gradients):
        return bare, 1.0
    return Counter({exponent + _USUAL_SCALE: count for exponent, count in bare.items()}), 2.0**_USUAL_SCALE


def _exponent(number: float) -> int:
    return math.frexp(number)[1] - 1
