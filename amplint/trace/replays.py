"""Values lost in half: operations are rerun in float32 on the same inputs, and the results compared.

A count of zeros could not distinguish a ReLU from underflow; this can. Only float16 loses values this way: bfloat16 has
the range of float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from amplint.records import dataclass
from amplint.trace.bins import WIDTH, bins, count, exponents
from amplint.trace.data import HalfLoss, dtype_name
from amplint.trace.tally import Kind, reads_workspace
from amplint.trace.values import in_float32, is_plain, sample, unseen

_SAMPLE = 4096
_SMALLEST = 0.1
"""The share of what is lost that is not worth a loss scale."""


@dataclass(slots=True)
class _Lost:
    """The losses so far, on the device: counts of elements, underflow and overflow; the largest; exponents."""

    counts: Tensor
    largest: Tensor
    exponents: Tensor


class Replays:
    """Reruns every `every`-th operation with a float16 result; different ones each step."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._turn = 0
        self._step = 0
        self._lost: dict[tuple[Any, ...], _Lost] = {}
        self._refused: set[int] = set()

    def end_step(self) -> None:
        """Start with another operation in the next step."""
        self._step += 1
        self._turn = self._step

    def look(self, kind: Kind, args: Any, kwargs: Any, outputs: list[Tensor], scale: float) -> None:
        """Compare the results of `kind` with float32, if it is its turn. `scale` is the loss scale of gradients."""
        self._turn += 1
        if self._turn % self._every:
            return
        exact = self.replay(kind, args, kwargs)
        if len(exact) != len(outputs):
            return
        for half, single in zip(outputs, exact, strict=True):
            if _comparable(half, single):
                key = (
                    kind.phase,
                    kind.op,
                    kind.line,
                    kind.library,
                    kind.module,
                    scale if kind.phase == "backward" else 1.0,
                )
                with unseen():
                    self._add(key, _compare(half, single))

    def replay(self, kind: Kind, args: Any, kwargs: Any) -> list[Tensor]:
        """The results of `kind` in float32, empty if it cannot run."""
        if id(kind.func) in self._refused or reads_workspace(kind.func, args):
            return []
        if kind.op == "_to_copy":
            return [args[0]]
        try:
            result = kind.func(*in_float32(args), **{name: in_float32(value) for name, value in (kwargs or {}).items()})
        except (RuntimeError, NotImplementedError, TypeError, ValueError):  # no float32 kernel, or out of memory
            self._refused.add(id(kind.func))
            return []
        return [result] if isinstance(result, Tensor) else [part for part in result if isinstance(part, Tensor)]

    def losses(self) -> Iterator[HalfLoss]:
        """The losses by operation, line and scale."""
        for (phase, op, line, library, module, scale, _), lost in self._lost.items():
            elements, underflowed, overflowed = lost.counts.tolist()
            smallest, largest = _reached(lost.exponents.tolist()), _exponent(lost.largest.item())
            counts = (elements, underflowed, overflowed, smallest, largest)
            yield HalfLoss(phase, op, line[0], line[1], module, dtype_name(torch.float16), *counts, scale, *library)

    def _add(self, key: tuple[Any, ...], more: _Lost) -> None:
        key = (*key, more.counts.device)
        lost = self._lost.get(key)
        if lost is None:
            self._lost[key] = more
        else:
            lost.counts += more.counts
            lost.exponents += more.exponents
            lost.largest = torch.maximum(lost.largest, more.largest)


def _comparable(half: Tensor, single: Tensor) -> bool:
    dtypes = half.dtype is torch.float16 and single.dtype is torch.float32
    return dtypes and is_plain(half) and is_plain(single) and half.shape == single.shape


def _compare(half: Tensor, single: Tensor) -> _Lost:
    size = single.abs()
    finite = size.isfinite()
    gone = (half == 0) & (size > 0)
    counts = torch.stack([torch.count_nonzero(part) for part in (size, gone, half.isinf() & finite)])
    taken = sample(torch.where(gone, size, 0), _SAMPLE)
    return _Lost(counts, torch.where(finite, size, 0).amax(), count(bins(taken), counts.new_zeros(WIDTH)))


def _reached(counts: list[int]) -> int | None:
    """The exponent that all but the smallest tenth of the lost values reach."""
    lost = exponents(counts)
    passed = 0
    for exponent, times in sorted(lost.items()):
        passed += times
        if passed > _SMALLEST * sum(lost.values()):
            return exponent
    return None


def _exponent(value: float) -> int | None:
    return math.frexp(value)[1] - 1 if value else None
