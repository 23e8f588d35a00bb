"""Weight updates: their magnitude, and the share lost in the weight's dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor
from torch.optim import Optimizer

from amplint.records import dataclass
from amplint.trace.data import Update, dtype_name
from amplint.trace.frames import NOWHERE, Line
from amplint.trace.held import parameters
from amplint.trace.values import is_plain, sample

_STEPS = 32
"""Of more steps every other one is forgotten."""


@dataclass(slots=True)
class _Before:
    """Parameters of one device with their names; `weights` are samples of all, `pushed` marks those with a gradient."""

    names: list[str]
    parameters: list[Tensor]
    weights: Tensor
    pushed: Tensor


class Updates:
    """Compares `size` elements of each weight before and after a step, which also covers fused optimizers."""

    def __init__(self, size: int, path: Callable[[Tensor], str]) -> None:
        self._size = size
        self._path = path
        self._before: dict[Optimizer, list[_Before]] = {}
        self._stepped: dict[tuple[Optimizer, torch.device], tuple[_Before, Tensor]] = {}
        self._steps: list[list[Update]] = []
        self._stride, self._ended = 1, 0

    def begin(self, optimizer: Optimizer) -> None:
        """`optimizer` is about to step."""
        devices: dict[torch.device, list[tuple[str, Tensor, Tensor]]] = {}
        for name, parameter, group in parameters(optimizer, self._path):
            gradient = parameter.grad
            if gradient is not None and is_plain(parameter) and is_plain(gradient) and float(group.get("lr") or 0.0):
                devices.setdefault(parameter.device, []).append((name, parameter, gradient))
        self._before[optimizer] = [
            _Before(
                [name for name, _, _ in found],
                [parameter for _, parameter, _ in found],
                torch.cat([sample(parameter, self._size) for _, parameter, _ in found]),
                torch.cat([sample(gradient, self._size) for _, _, gradient in found]) != 0,
            )
            for found in devices.values()
        ]

    def end(self, optimizer: Optimizer) -> None:
        """`optimizer` stepped."""
        for before in self._before.pop(optimizer, []):
            self._stepped[optimizer, before.weights.device] = before, _sums(before, self._size)

    def end_step(self, step: int, lines: Mapping[Optimizer, Line], skipped: Collection[str]) -> None:
        """Record the updates in `step`, without optimizers whose kinds are in `skipped` by a scaler."""
        found: list[Update] = []
        for (optimizer, _), (before, sums) in self._stepped.items():
            kind = type(optimizer).__name__
            if kind not in skipped:
                place = (kind, *lines.get(optimizer, NOWHERE), step)
                found += [
                    Update(name, *place, dtype_name(parameter.dtype), *_shares(*values))
                    for name, parameter, values in zip(before.names, before.parameters, sums.T.tolist(), strict=True)
                ]
        self._stepped.clear()
        self._keep(found)

    def updates(self) -> list[Update]:
        """The recorded updates in the order of steps."""
        return [update for step in self._steps for update in step]

    def _keep(self, found: list[Update]) -> None:
        if found and self._ended % self._stride == 0:
            self._steps.append(found)
        self._ended += bool(found)
        if len(self._steps) > _STEPS:
            self._steps = self._steps[::2]
            self._stride *= 2


def _sums(before: _Before, size: int) -> Tensor:
    """For each parameter the squares of update and weight, and the counts of pushed elements and of unchanged ones."""
    weight, pushed, rows = before.weights, before.pushed, len(before.names)
    samples = [sample(parameter, size) for parameter in before.parameters]
    after, lengths = torch.cat(samples), torch.tensor([one.numel() for one in samples])
    index = torch.arange(rows).repeat_interleave(lengths).to(weight.device)
    update = after.double() - weight.double()
    numbers = torch.stack(
        [update.square(), weight.double().square(), pushed.double(), (pushed & (update == 0)).double()]
    )
    return numbers.new_zeros(4, rows).index_add_(1, index, numbers)


def _shares(update: float, weight: float, pushed: float, stayed: float) -> tuple[float | None, float]:
    """The ratio of the norms, None if it is not finite, and the share of lost updates."""
    ratio = math.sqrt(update / weight) if weight > 0 else math.nan
    return ratio if math.isfinite(ratio) else None, stayed / pushed if pushed else 0.0
