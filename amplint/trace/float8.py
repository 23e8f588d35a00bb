"""The operands of float8 products, and their scales."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from amplint.trace.calls import tensors
from amplint.trace.data import SERIES_POINTS, Float8, dtype_name
from amplint.trace.frames import Line
from amplint.trace.kinds import SCALED
from amplint.trace.tally import Kind
from amplint.trace.thinned import Thinned
from amplint.trace.values import unseen

_OPERANDS = 2000
"""So many are kept."""
_Key = tuple[str, Line, Line, str, str, torch.dtype]


class Float8Operands:
    """Collects the magnitudes and scales of operands by step; of a step the largest.

    Values stay on their device and are read once a step.
    """

    def __init__(self) -> None:
        self._step: dict[_Key, Tensor] = {}
        self._kept: dict[_Key, Thinned[tuple[float, float]]] = {}

    def look(self, kind: Kind, args: Any, kwargs: Any) -> None:
        """Record the operands of a product that `takes_scales`."""
        names = [argument.name for argument in kind.func._schema.arguments]
        given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
        with unseen():
            for side, operand, scale in zip(("left", "right"), args[:2], ("scale_a", "scale_b"), strict=True):
                scales = tensors([given.get(scale)])
                if scales and operand.numel() and scales[0].numel():
                    key = (kind.phase, kind.line, kind.library, kind.module, side, operand.dtype)
                    self._hold(key, _sizes(operand, scales[0].float()))

    def end_step(self, step: int) -> None:
        """`step` ended."""
        for key, sizes in self._step.items():
            if key in self._kept or len(self._kept) < _OPERANDS:
                amax, scale = sizes.tolist()
                self._kept.setdefault(key, Thinned(SERIES_POINTS, _largest)).add(step, (amax, scale))
        self._step.clear()

    def operands(self) -> Iterator[Float8]:
        """The operands so far."""
        for (phase, line, library, module, side, dtype), kept in self._kept.items():
            amax, scale = (tuple(map(_finite, numbers)) for numbers in zip(*kept.values, strict=True))
            yield Float8(phase, *line, module, side, dtype_name(dtype), tuple(kept.steps), amax, scale, *library)

    def _hold(self, key: _Key, sizes: Tensor) -> None:
        before = self._step.get(key)
        self._step[key] = sizes if before is None else torch.maximum(before, sizes)


def takes_scales(func: Any) -> bool:
    """Whether `func` is a product of operands with scales."""
    return str(func._schema.name).removeprefix("aten::") in SCALED


def _sizes(operand: Tensor, scale: Tensor) -> Tensor:
    """The largest value that `operand` represents, and the largest scale. Block scales are not applied."""
    size = operand.float().abs()
    scaled = size * scale if scale.numel() == 1 or _fits(scale, size) else size
    return torch.stack([scaled.amax(), scale.amax()])


def _fits(scale: Tensor, size: Tensor) -> bool:
    """Whether there is one scale per row, or per column."""
    return scale.dim() == size.dim() and all(
        one in (1, other) for one, other in zip(scale.shape, size.shape, strict=True)
    )


def _largest(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return max(one[0], other[0]), max(one[1], other[1])


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
