"""Repeated blocks of a model, the units of checkpointing and sharding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torch import nn

_LISTS = (nn.ModuleList, nn.Sequential)


def repeated(module: nn.Module) -> list[nn.Module]:
    """Modules with children that are repeated in one list, or contain lists; none nested in others.

    Without any in lists, those that a module has several of as attributes.
    """
    return [*_repeated(module, lists=True)] or [*_repeated(module, lists=False)]


def _repeated(module: nn.Module, *, lists: bool) -> Iterator[nn.Module]:
    children = [*_flat(module)]
    counts = Counter(type(child) for child in children if any(True for _ in child.children()))
    counted = not lists or isinstance(module, _LISTS)
    for child in children:
        if counted and counts[type(child)] > 1 and not isinstance(child, _LISTS if not lists else nn.Sequential):
            yield child
        else:
            yield from _repeated(child, lists=lists)


def _flat(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if isinstance(module, nn.ModuleList) and isinstance(child, nn.ModuleList):
            yield from _flat(child)
        else:
            yield child
