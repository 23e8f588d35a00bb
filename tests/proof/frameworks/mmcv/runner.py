"""Stands in for the decorators of mmcv 1.x: both ask the object for `fp16_enabled` and else do nothing."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any

import torch


class BaseModule(torch.nn.Module):
    """mmcv's base class; it does not set `fp16_enabled`."""


def auto_fp16(apply_to: Collection[str] | None = None, out_fp32: bool = False) -> Callable[..., Any]:
    """Run the method under autocast, with half arguments."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(self: torch.nn.Module, *args: Any, **options: Any) -> Any:
            if not getattr(self, "fp16_enabled", False):
                return function(self, *args, **options)
            with torch.autocast("cuda"):
                result = function(self, *_cast(function, apply_to, args, torch.float16), **options)
            return result.float() if out_fp32 else result

        return run

    return decorate


def force_fp32(apply_to: Collection[str] | None = None, out_fp16: bool = False) -> Callable[..., Any]:
    """Run the method outside of autocast, with float32 arguments."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(self: torch.nn.Module, *args: Any, **options: Any) -> Any:
            if not getattr(self, "fp16_enabled", False):
                return function(self, *args, **options)
            with torch.autocast("cuda", enabled=False):
                result = function(self, *_cast(function, apply_to, args, torch.float32), **options)
            return result.half() if out_fp16 else result

        return run

    return decorate


def _cast(
    function: Callable[..., Any], names: Collection[str] | None, args: tuple[Any, ...], dtype: torch.dtype
) -> list[Any]:
    parameters = list(inspect.signature(function).parameters)[1:]
    return [
        value.to(dtype) if isinstance(value, torch.Tensor) and (names is None or name in names) else value
        for name, value in zip(parameters, args, strict=False)
    ]


def wrap_fp16_model(model: torch.nn.Module) -> None:
    """Switch the decorators on in every module that has the attribute."""
    for module in model.modules():
        if hasattr(module, "fp16_enabled"):
            module.fp16_enabled = True
