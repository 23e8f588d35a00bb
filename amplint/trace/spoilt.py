"""Nonfinite gradients at an optimizer's step, in steps that are not recorded otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.optim import Optimizer

from amplint.records import dataclass
from amplint.trace.data import NonFinite, dtype_name
from amplint.trace.frames import Line, calling_line
from amplint.trace.placement import is_on_host
from amplint.trace.values import is_plain

_MOST = 64
"""So many steps are read at the latest: other devices than the CPU are not waited for each time."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The largest gradients of a step, one per dtype."""

    number: int
    optimizer: str
    line: Line
    largest: dict[torch.dtype, Tensor]

    def nonfinite(self) -> Iterator[NonFinite]:
        for dtype, largest in self.largest.items():
            value = largest.item()
            if value - value != 0:
                place = ("step", f"{self.optimizer}.step", *self.line, "")
                kind = "nan" if value != value else "inf"
                yield NonFinite(self.number, "optimizer", *place, kind, dtype_name(dtype))


class Spoilt:
    """Finds the first optimizer step with nonfinite gradients."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._found: list[NonFinite] = []

    def look(self, optimizer: Optimizer, number: int) -> bool:
        """Check the gradients that `optimizer` is about to step with; return whether they are known to be nonfinite.

        A fused optimizer with a scaler's `found_inf`, which skips the update itself, is ignored.
        """
        if self._found or getattr(optimizer, "found_inf", None) is not None:
            return False
        gradients: dict[torch.dtype, list[Tensor]] = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and is_plain(parameter.grad):
                    gradients.setdefault(parameter.grad.dtype, []).append(parameter.grad)
        largest = {dtype: _largest(some) for dtype, some in gradients.items()}
        self._steps.append(_Step(number, type(optimizer).__name__, calling_line(), largest))
        if all(map(is_on_host, largest.values())) or len(self._steps) >= _MOST:
            self._read()
        return bool(self._found)

    def found(self) -> list[NonFinite]:
        """The first such step, if any."""
        self._read()
        return self._found

    def _read(self) -> None:
        for step in self._steps:
            self._found = self._found or list(step.nonfinite())[:1]
        self._steps.clear()


def _largest(gradients: list[Tensor]) -> Tensor:
    home = gradients[0].device
    return torch.stack([one.to(home) for one in torch._foreach_norm(gradients, float("inf"))]).amax()
