"""A stand-in for `mmcv.runner` of mmcv 1.x on the CPU, written from its documentation: float16 is float16 there too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch


class BaseModule(torch.nn.Module):
    """A module that takes `init_cfg`."""

    def __init__(self, init_cfg: object = None) -> None:
        super().__init__()


def auto_fp16(apply_to: Any = None, out_fp32: bool = False) -> Callable[..., Any]:
    """Run a method under autocast, with some float32 arguments made float16."""
    return _decorator(apply_to, (torch.float32, torch.float16), enabled=True, back=out_fp32)


def force_fp32(apply_to: Any = None, out_fp16: bool = False) -> Callable[..., Any]:
    """Run a method without autocast, with some float16 arguments made float32."""
    return _decorator(apply_to, (torch.float16, torch.float32), enabled=False, back=out_fp16)


def wrap_fp16_model(model: torch.nn.Module) -> None:
    """Turn the decorators on."""
    for module in model.modules():
        if hasattr(module, "fp16_enabled"):
            module.fp16_enabled = True


def _decorator(
    apply_to: Any, kinds: tuple[torch.dtype, torch.dtype], *, enabled: bool, back: bool
) -> Callable[..., Any]:
    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        names = inspect.getfullargspec(method).args

        @functools.wraps(method)
        def run(*given: Any, **named: Any) -> Any:
            if not getattr(given[0], "fp16_enabled", False):
                return method(*given, **named)
            chosen = names if apply_to is None else apply_to
            plain = [
                cast(value, *kinds) if name in chosen else value for name, value in zip(names, given, strict=False)
            ]
            others = {name: cast(value, *kinds) if name in chosen else value for name, value in named.items()}
            with torch.autocast("cpu", dtype=torch.float16, enabled=enabled):
                result = method(*plain, **others)
            return cast(result, *reversed(kinds)) if back else result

        return run

    return decorate


def cast(value: Any, source: torch.dtype, target: torch.dtype) -> Any:
    """The tensors in `value` that are `source` as `target`."""
    if isinstance(value, torch.Tensor):
        return value.to(target) if value.dtype == source else value
    if isinstance(value, Mapping):
        return {name: cast(each, source, target) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(cast(each, source, target) for each in value)
    return value
