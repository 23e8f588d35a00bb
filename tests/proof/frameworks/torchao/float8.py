"""Stands in for torchao 0.7 to 0.18: layers that multiply in float8, with what `torch._scaled_mm` asks for on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


def _rounded(tensor: torch.Tensor) -> torch.Tensor:
    scale = 448.0 / tensor.detach().abs().max().clamp(min=1e-12)
    return (tensor * scale).to(torch.float8_e4m3fn).to(tensor.dtype) / scale


class _Linear(nn.Linear):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if rows.shape[-1] % 16:
            raise RuntimeError("Expected trailing dimension of mat1 to be divisible by 16")
        if self.out_features % 16:
            raise RuntimeError(f"mat2 shape ({self.in_features}x{self.out_features}) must be divisible by 16")
        return functional.linear(_rounded(rows), _rounded(self.weight), self.bias)


class _Emulated(nn.Linear):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return functional.linear(_rounded(rows), _rounded(self.weight), self.bias)


@dataclass
class Float8LinearConfig:
    """How products are computed; those that are emulated take any size."""

    emulate: bool = False


def convert_to_float8_training(
    module: nn.Module,
    *,
    module_filter_fn: Callable[[nn.Module, str], bool] | None = None,
    config: Float8LinearConfig | None = None,
) -> nn.Module:
    """Put new layers with the same parameters in the place of the linear ones that the filter lets through."""
    kind = _Emulated if config is not None and config.emulate else _Linear
    for path, layer in [*module.named_modules()]:
        if isinstance(layer, nn.Linear) and (module_filter_fn is None or module_filter_fn(layer, path)):
            with torch.device("meta"):
                made = kind(layer.in_features, layer.out_features, bias=False)
            made.weight, made.bias = layer.weight, layer.bias
            if layer is module:
                return made
            above, _, name = path.rpartition(".")
            setattr(module.get_submodule(above), name, made)
    return module
