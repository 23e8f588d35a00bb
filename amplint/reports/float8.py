"""The operands of float8 products for the terminal: their magnitude relative to the format's range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.reports.exponents import FLOAT8
from amplint.reports.ran import share
from amplint.reports.text import wrap
from amplint.trace.data import Float8, RunData


def float8(record: RunData, width: int) -> Iterator[str]:
    """The section of the summary; empty without float8 products."""
    if record.float8:
        yield from ("", "float8 operands of products:")
    for dtype in dict.fromkeys(one.dtype for one in record.float8):
        operands = [one for one in record.float8 if one.dtype == dtype]
        text = f"{dtype}: {len(operands)} operand{'s' if len(operands) > 1 else ''}{_sizes(dtype, operands)}"
        yield from wrap(text, width, "    ", "  ")


def _sizes(dtype: str, operands: Sequence[Float8]) -> str:
    pairs = [pair for one in operands for pair in zip(one.amax, one.scale, strict=True)]
    known = [(amax, scale) for amax, scale in pairs if amax is not None and scale]
    if not known or dtype not in FLOAT8:
        return ""
    (least, most), (low, high) = ((min(numbers), max(numbers)) for numbers in zip(*known, strict=True))
    largest = FLOAT8[dtype][0]
    filled = min(amax / scale for amax, scale in known)
    return (
        f", the largest numbers from {least:.2g} to {most:.2g}, scales from {low:.2g} to {high:.2g}; "
        f"they fill at least {share(filled, largest)} of the format's {largest:g}"
    )
