"""Activation checkpointing: repeated blocks of a model save their inputs only, and are recomputed in backward.

In a model without any, but with a long `Sequential`, parts of that are checkpointed instead.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.checkpoint import checkpoint

from amplint.trace.memory.blocks import repeated
from amplint.trace.memory.refused import Refused
from amplint.trace.replaced import replaced

_LONG = 4


@contextlib.contextmanager
def checkpointing(wanted: bool) -> Iterator[None]:
    """Checkpoint models if `wanted`. Raises Refused at a step, or the end, if no model has blocks."""
    if not wanted:
        yield
        return
    known: set[int] = set()
    blocks: list[nn.Module] = []
    call: Any = nn.Module.__call__

    def called(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if id(module) not in known:
            known.update(map(id, module.modules()))
            found = repeated(module)
            for block in found:
                block.forward = functools.partial(_again, block.forward)
            for long in [] if found else _long(module):
                long.forward = functools.partial(_in_parts, [*long])
                found.append(long)
            blocks.extend(found)
        return call(module, *args, **kwargs)

    def demand(*_: object) -> None:
        if not blocks:
            raise Refused("no model has blocks that repeat, or a Sequential of four modules")

    hook = register_optimizer_step_pre_hook(demand)
    try:
        with replaced(nn.Module, __call__=called):
            yield
            demand()
    finally:
        hook.remove()


def _long(module: nn.Module) -> Iterator[Any]:
    """The outermost `Sequential`s of at least `_LONG` modules."""
    if isinstance(module, nn.Sequential) and len(module) >= _LONG:
        yield module
    else:
        for child in module.children():
            yield from _long(child)


def _in_parts(modules: list[nn.Module], value: Any) -> Any:
    """Run `modules` in about sqrt(N) checkpointed parts."""
    size = math.isqrt(len(modules))
    for begin in range(0, len(modules), size):
        value = _again(functools.partial(_one_by_one, modules[begin : begin + size]), value)
    return value


def _one_by_one(modules: list[nn.Module], value: Any) -> Any:
    for module in modules:
        value = module(value)
    return value


def _again(forward: Any, *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    options: Any = {"use_reentrant": False, "preserve_rng_state": False, "determinism_check": "none"}
    return checkpoint(forward, *args, **options, **kwargs)
