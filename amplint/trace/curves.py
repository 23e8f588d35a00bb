"""The series of a long run: loss, loss scale and tensor magnitudes per step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, MutableMapping
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from amplint.trace.data import SERIES_POINTS, Series
from amplint.trace.frames import Line
from amplint.trace.thinned import Thinned
from amplint.trace.values import is_plain, sample, unseen

_NUMBERS = 100_000
"""So many are kept of all tensors together."""
_LOST = 2.0**-25
"""Half of float16's smallest number, which rounds to 0."""
_Name = tuple[str, str]
_Sizes = dict[_Name, float]
_Key = TypeVar("_Key", Line, _Name)


class Curves:
    """Collects `series`. Values stay on their device and are read once a step.

    Losses and tensors are taken in recorded steps, scalers in all. At most `_NUMBERS` values of tensors are kept, and
    `SERIES_POINTS` of each other series. Underflow is measured on `size` elements of a gradient.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._unscaled: MutableMapping[Tensor, Tensor] = WeakIdKeyDictionary()
        self._scaling = False
        self._passes: dict[Line, Tensor] = {}
        self._sizes: dict[_Name, Tensor] = {}
        self._losses: dict[Line, Thinned[tuple[float, int]]] = {}
        self._scales: dict[str, tuple[Line, Thinned[float], Thinned[int]]] = {}
        self._skipped: dict[str, int] = {}
        self._tensors: Thinned[_Sizes] = Thinned(SERIES_POINTS, _largest)

    def forget(self) -> None:
        """Discard the values of recorded steps."""
        self._losses.clear()
        self._tensors = Thinned(SERIES_POINTS, _largest)

    def scale(self, scaled: object, losses: object) -> None:
        """A scaler turned `losses` into `scaled`."""
        self._scaling = True
        if isinstance(scaled, Tensor) and isinstance(losses, Tensor):
            with unseen():
                self._unscaled[scaled] = losses.detach()

    def backward(self, line: Line, loss: object) -> None:
        """`loss.backward()` begins; the unscaled loss is unknown if the scaled one was modified since."""
        if not isinstance(loss, Tensor):
            return
        with unseen():
            known = self._unscaled.get(loss, None if self._scaling else loss)
            if known is not None and known.numel() == 1 and is_plain(known):
                value = known.detach().reshape(()).double()
                self._passes[line] = self._passes[line] + value if line in self._passes else value.clone()

    def take(self, what: str, name: str, tensor: Tensor) -> None:
        """Record the magnitude of `tensor`, an `activation` or a `gradient`."""
        if not is_plain(tensor):
            return
        self._hold((what, name), torch.linalg.vector_norm(tensor.detach(), math.inf).double())
        if what == "gradient":
            taken = sample(tensor, self._size).abs()
            lost, numbers = (taken > 0) & (taken < _LOST), torch.count_nonzero(taken).clamp(min=1)
            self._hold(("underflow", name), torch.count_nonzero(lost).double() / numbers)

    def stepped(self, scaler: str, line: Line, step: int, scale: float, *, skipped: bool) -> None:
        """`scaler` stepped an optimizer, or skipped the step."""
        if scaler not in self._scales:
            self._scales[scaler] = line, Thinned(SERIES_POINTS, min), Thinned(SERIES_POINTS, max)
        self._skipped[scaler] = self._skipped.get(scaler, 0) + skipped
        _, scales, times = self._scales[scaler]
        scales.add(step, scale)
        times.add(step, self._skipped[scaler])

    def end_step(self, step: int, *, on: bool) -> None:
        """`step` ended; `on` if it is recorded."""
        if on:
            with unseen():
                passes, found = _read(self._passes), _read(self._sizes)
            for line, value in passes.items():
                self._losses.setdefault(line, Thinned(SERIES_POINTS, _summed)).add(step, (value, 1))
            if found:
                self._tensors.add(step, found)
                while len(self._tensors.steps) > 1 and len(self._tensors.steps) * len(found) > _NUMBERS:
                    self._tensors.thin()
        self._passes.clear()
        self._sizes.clear()

    def _hold(self, name: _Name, size: Tensor) -> None:
        before = self._sizes.get(name)
        self._sizes[name] = size if before is None else torch.maximum(before, size)

    def series(self) -> Iterator[Series]:
        """The collected series."""
        for line, losses in self._losses.items():
            yield _series("loss", "", line, losses.steps, (total / count for total, count in losses.values))
        for scaler, (line, scales, skipped) in self._scales.items():
            yield _series("scale", scaler, line, scales.steps, scales.values)
            yield _series("skipped", scaler, line, skipped.steps, skipped.values)
        kept = list(zip(self._tensors.steps, self._tensors.values, strict=True))
        for what, name in dict.fromkeys(key for _, sizes in kept for key in sizes):
            known = [(step, sizes[what, name]) for step, sizes in kept if (what, name) in sizes]
            yield _series(what, name, ("", 0), [step for step, _ in known], (value for _, value in known))


def _series(what: str, name: str, line: Line, steps: list[int], values: Iterable[float]) -> Series:
    return Series(what, name, *line, tuple(steps), tuple(value if math.isfinite(value) else None for value in values))


def _read(numbers: dict[_Key, Tensor]) -> dict[_Key, float]:
    """The values of zero-dimensional tensors, in order, with one synchronisation per device."""
    values = dict.fromkeys(numbers, 0.0)
    for device in {number.device for number in numbers.values()}:
        there = {key: number for key, number in numbers.items() if number.device == device}
        values.update(zip(there, torch.stack(list(there.values())).tolist(), strict=True))
    return values


def _summed(one: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
    return one[0] + other[0], one[1] + other[1]


def _larger(one: float, other: float) -> float:
    """The larger of both; NaN if either is."""
    return other if other != other or other > one else one


def _largest(one: _Sizes, other: _Sizes) -> _Sizes:
    return {key: _larger(one.get(key, 0.0), other.get(key, 0.0)) for key in dict.fromkeys([*one, *other])}
