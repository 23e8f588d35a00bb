"""Activation checkpointing: the blocks that a model repeats keep their inputs only, and run again in backward."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.checkpoint import checkpoint

from amplint.trace.memory.refused import Refused
from amplint.trace.replaced import replaced


@contextlib.contextmanager
def checkpointing(wanted: bool) -> Iterator[None]:
    """Let models run under checkpoints where that is `wanted`. Raises Refused at a step, or the end, without blocks."""
    if not wanted:
        yield
        return
    known: set[int] = set()
    blocks: list[nn.Module] = []
    call: Any = nn.Module.__call__

    def called(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if id(module) not in known:
            known.update(map(id, module.modules()))
            found = [*_repeated(module)]
            for block in found:
                block.forward = functools.partial(_again, block.forward)
            blocks.extend(found)
        return call(module, *args, **kwargs)

    def demand(*_: object) -> None:
        if not blocks:
            raise Refused("no model has blocks that repeat in a ModuleList or Sequential")

    hook = register_optimizer_step_pre_hook(demand)
    try:
        with replaced(nn.Module, __call__=called):
            yield
            demand()
    finally:
        hook.remove()


def _repeated(module: nn.Module) -> Iterator[nn.Module]:
    """Modules with children of their own of which one list has several, or lists in it; none inside of others."""
    children = [*_flat(module)]
    counts = Counter(type(child) for child in children if any(True for _ in child.children()))
    lists = isinstance(module, (nn.ModuleList, nn.Sequential))
    for child in children:
        if lists and counts[type(child)] > 1 and not isinstance(child, nn.Sequential):
            yield child
        else:
            yield from _repeated(child)


def _flat(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if isinstance(module, nn.ModuleList) and isinstance(child, nn.ModuleList):
            yield from _flat(child)
        else:
            yield child


def _again(forward: Any, *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    options: Any = {"use_reentrant": False, "preserve_rng_state": False, "determinism_check": "none"}
    return checkpoint(forward, *args, **options, **kwargs)
