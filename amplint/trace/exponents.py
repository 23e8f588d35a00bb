"""Histograms of how large activations, weights and gradients are."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from amplint.trace.bins import NONFINITE, WIDTH, ZERO, bins, counted, exponents
from amplint.trace.record import Histogram, dtype_name
from amplint.trace.values import is_plain, sample

_Key = tuple[str, str, torch.dtype, float]


class Exponents:
    """Takes at most `size` numbers of a tensor, `calls` times a step for each name, and counts them at its end."""

    def __init__(self, size: int, calls: int) -> None:
        self._size = size
        self._calls = calls
        self._taken: dict[_Key, list[Tensor]] = {}
        self._counts: dict[_Key, Tensor] = {}

    def take(self, what: str, name: str, tensor: Tensor, scale: float = 1.0) -> None:
        """Take numbers of `tensor`: `what`, `name` and `scale` are as in `Histogram`."""
        if not is_plain(tensor):
            return
        taken = self._taken.setdefault((what, name, tensor.dtype, scale), [])
        if len(taken) < self._calls:
            taken.append(sample(tensor, self._size).clone())

    def end_step(self) -> None:
        """Count what was taken."""
        devices: dict[torch.device, list[tuple[_Key, Tensor]]] = {}
        for key, parts in self._taken.items():
            for part in parts:
                devices.setdefault(part.device, []).append((key, part))
        self._taken.clear()
        for device, rows in devices.items():
            lengths = torch.tensor([part.numel() for _, part in rows])
            row = torch.arange(len(rows)).repeat_interleave(lengths).to(device)
            found = bins(torch.cat([part.float() for _, part in rows])) + row * WIDTH
            counts = counted(found, len(rows) * WIDTH).cpu().view(len(rows), WIDTH)
            for (key, _), count in zip(rows, counts, strict=True):
                before = self._counts.get(key)
                self._counts[key] = count.clone() if before is None else before + count

    def histograms(self) -> Iterator[Histogram]:
        """What was counted."""
        for (what, name, dtype, scale), tensor in self._counts.items():
            counts = tensor.tolist()
            yield Histogram(what, name, dtype_name(dtype), scale, exponents(counts), counts[ZERO], counts[NONFINITE])
