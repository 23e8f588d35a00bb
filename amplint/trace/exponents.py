"""Histograms of the magnitudes of activations, weights and gradients."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from amplint.trace.bins import NONFINITE, WIDTH, ZERO, bins, count, exponents
from amplint.trace.data import Histogram, dtype_name
from amplint.trace.values import is_plain, sample

_Key = tuple[str, str, torch.dtype, float]


class Exponents:
    """Samples at most `size` elements of a tensor, `calls` times a step for each name, and counts them at its end.

    Counts stay on the device: there is a row of `WIDTH` for each key.
    """

    def __init__(self, size: int, calls: int) -> None:
        self._size = size
        self._calls = calls
        self._taken: dict[_Key, list[Tensor]] = {}
        self._rows: dict[_Key, int] = {}
        self._counts: dict[torch.device, Tensor] = {}

    def take(self, what: str, name: str, tensor: Tensor, scale: float = 1.0) -> None:
        """Sample `tensor`: `what`, `name` and `scale` are as in `Histogram`."""
        if not is_plain(tensor):
            return
        taken = self._taken.setdefault((what, name, tensor.dtype, scale), [])
        if len(taken) < self._calls:
            taken.append(sample(tensor, self._size).clone())

    def end_step(self) -> None:
        """Count the samples of the step."""
        groups: dict[tuple[torch.device, torch.dtype], list[tuple[int, Tensor]]] = {}
        for key, taken in self._taken.items():
            row = self._rows.setdefault(key, len(self._rows))
            for part in taken:
                groups.setdefault((part.device, part.dtype), []).append((row, part))
        self._taken.clear()
        for (device, _), parts in groups.items():
            rows = torch.tensor([row for row, _ in parts])
            lengths = torch.tensor([part.numel() for _, part in parts])
            begins = (rows * WIDTH).repeat_interleave(lengths).to(device)
            count(begins + bins(torch.cat([part for _, part in parts])), self._table(device))

    def histograms(self) -> Iterator[Histogram]:
        """The histograms so far."""
        table = torch.zeros(len(self._rows) * WIDTH, dtype=torch.int64, device="cpu")
        for device in self._counts:
            table += self._table(device).cpu()
        for (what, name, dtype, scale), row in self._rows.items():
            counts = table[row * WIDTH : (row + 1) * WIDTH].tolist()
            yield Histogram(what, name, dtype_name(dtype), scale, exponents(counts), counts[ZERO], counts[NONFINITE])

    def _table(self, device: torch.device) -> Tensor:
        """The counts on `device`, with a row for each key so far."""
        before = self._counts.get(device)
        missing = len(self._rows) * WIDTH - (0 if before is None else len(before))
        if before is None or missing:
            more = torch.zeros(missing, dtype=torch.int64, device=device)
            before = self._counts[device] = more if before is None else torch.cat([before, more])
        return before
