"""What optimizers' steps do to weights: how large updates are, and how many are lost in the weight's dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor
from torch.optim import Optimizer

from amplint.records import dataclass
from amplint.trace.frames import NOWHERE, Line
from amplint.trace.held import parameters
from amplint.trace.record import Update, dtype_name
from amplint.trace.values import is_plain, sample

_STEPS = 32
"""Of more steps every other one is forgotten."""


@dataclass(slots=True)
class _Before:
    name: str
    parameter: Tensor
    weight: Tensor
    pushed: Tensor


class Updates:
    """Compares `size` numbers of each weight before and after a step, so that it holds for fused optimizers too."""

    def __init__(self, size: int, path: Callable[[Tensor], str]) -> None:
        self._size = size
        self._path = path
        self._before: dict[Optimizer, list[_Before]] = {}
        self._stepped: dict[tuple[Optimizer, torch.device], tuple[list[_Before], Tensor]] = {}
        self._steps: list[list[Update]] = []
        self._stride, self._ended = 1, 0

    def begin(self, optimizer: Optimizer) -> None:
        """`optimizer` is about to step."""
        self._before[optimizer] = [
            _Before(name, parameter, sample(parameter, self._size).clone(), sample(parameter.grad, self._size) != 0)
            for name, parameter, group in parameters(optimizer, self._path)
            if parameter.grad is not None and is_plain(parameter) and is_plain(parameter.grad)
            if float(group.get("lr") or 0.0) != 0
        ]

    def end(self, optimizer: Optimizer) -> None:
        """`optimizer` has stepped."""
        all_before = self._before.pop(optimizer, [])
        for device in {before.weight.device for before in all_before}:
            rows = [before for before in all_before if before.weight.device == device]
            self._stepped[optimizer, device] = rows, _sums(rows, self._size)

    def end_step(self, step: int, lines: Mapping[Optimizer, Line], skipped: Collection[str]) -> None:
        """Keep what was seen in `step`, without optimizers whose kinds are in `skipped`: a scaler kept them from it."""
        found: list[Update] = []
        for (optimizer, _), (rows, sums) in self._stepped.items():
            kind = type(optimizer).__name__
            if kind not in skipped:
                place = (kind, *lines.get(optimizer, NOWHERE), step)
                found += [
                    Update(row.name, *place, dtype_name(row.weight.dtype), *_shares(*values))
                    for row, values in zip(rows, sums.T.tolist(), strict=True)
                ]
        self._stepped.clear()
        self._keep(found)

    def updates(self) -> list[Update]:
        """What was kept, in the order of steps."""
        return [update for step in self._steps for update in step]

    def _keep(self, found: list[Update]) -> None:
        if found and self._ended % self._stride == 0:
            self._steps.append(found)
        self._ended += bool(found)
        if len(self._steps) > _STEPS:
            self._steps = self._steps[::2]
            self._stride *= 2


def _sums(rows: list[_Before], size: int) -> Tensor:
    """For each of `rows` the squares of update and weight, the pushed numbers, and those of them that stayed."""
    weight = torch.cat([row.weight for row in rows])
    after = torch.cat([sample(row.parameter, size) for row in rows])
    pushed = torch.cat([row.pushed for row in rows])
    lengths = torch.tensor([row.weight.numel() for row in rows])
    index = torch.arange(len(rows)).repeat_interleave(lengths).to(weight.device)
    update = after.double() - weight.double()
    numbers = torch.stack(
        [update.square(), weight.double().square(), pushed.double(), (pushed & (update == 0)).double()]
    )
    return numbers.new_zeros(4, len(rows)).index_add_(1, index, numbers)


def _shares(update: float, weight: float, pushed: float, stayed: float) -> tuple[float | None, float]:
    """The ratio of the norms, None where it is no number, and the share of lost updates."""
    ratio = math.sqrt(update / weight) if weight > 0 else math.nan
    return ratio if math.isfinite(ratio) else None, stayed / pushed if pushed else 0.0
