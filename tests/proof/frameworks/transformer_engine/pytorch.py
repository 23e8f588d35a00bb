"""Stands in for Transformer Engine 1.0 to 2.10 with delayed scaling: scales that are renewed where a region ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint as plain_checkpoint

_MAX = 448.0
_state: dict[str, Any] = {"on": False, "again": False, "seen": []}


@contextmanager
def fp8_autocast(enabled: bool = True) -> Iterator[None]:
    """A region, behind which the layers that have run get new scales."""
    before = _state["on"]
    _state["on"] = enabled
    try:
        yield
    finally:
        _state["on"] = before
        if not before:
            for layer in _state["seen"]:
                layer.scale = _MAX / max(layer.history[-8:])
            _state["seen"].clear()


class Linear(nn.Linear):
    """A layer with a scale for what it gets; `scale` is that of the last region, and `history` what it has seen."""

    def __init__(self, in_features: int, out_features: int, params_dtype: torch.dtype | None = None) -> None:
        super().__init__(in_features, out_features, dtype=params_dtype)
        self.scale = 1.0
        self.history: list[float] = []

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """In float8 where a region is on."""
        if not _state["on"]:
            return super().forward(rows)
        for tensor in (rows, self.weight):
            if tensor.shape[:-1].numel() % 8 or tensor.shape[-1] % 16:
                raise AssertionError(
                    "FP8 execution requires the product of all dimensions except the last to be divisible by 8 and "
                    f"the last dimension to be divisible by 16, but got tensor with dims={list(tensor.size())}"
                )
        if not _state["again"]:
            self.history.append(rows.detach().abs().max().item())
            _state["seen"].append(self)
        kept = (rows * self.scale).clamp(-_MAX, _MAX).to(torch.float8_e4m3fn).to(rows.dtype) / self.scale
        return functional.linear(rows + (kept - rows).detach(), self.weight, self.bias)


def checkpoint(function: Callable[..., Any], *inputs: Any) -> Any:
    """Run a segment again in the backward pass, by the scales of its first run and without counting it."""
    first, on = [True], _state["on"]

    def run(*given: Any) -> Any:
        before = dict(_state)
        _state.update(again=not first[0], on=on)
        first[0] = False
        try:
            return function(*given)
        finally:
            _state.update(again=before["again"], on=before["on"])

    return plain_checkpoint(run, *inputs, use_reentrant=False)
