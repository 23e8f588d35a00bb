"""Gradient accumulation: DataLoader batches are divided, and optimizers step once for several of them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from types import MethodType
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from amplint.trace.memory.refused import Refused
from amplint.trace.replaced import replaced

_SIGNATURE = inspect.signature(DataLoader.__init__)


def arguments_of_loader(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """The arguments of a DataLoader's constructor by name, without the loader itself."""
    given = _SIGNATURE.bind(*args, **kwargs).arguments
    return {name: value for name, value in given.items() if name != "self"}


@contextlib.contextmanager
def accumulation(batches: int) -> Iterator[None]:
    """Divide batches by `batches`, and accumulate as many per step. Raises Refused if none can be divided."""
    if batches == 1:
        yield
        return
    windows = _Windows(batches)
    with (
        replaced(DataLoader, __init__=_dividing(DataLoader.__init__, windows)),
        replaced(Optimizer, __init__=_stepping(Optimizer.__init__, windows)),
        replaced(nn.Module, zero_grad=windows.clearing(nn.Module.zero_grad)),
    ):
        yield
        windows.demand()


class _Windows:
    """Counts the requested steps, of the optimizer with the most requests."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.divided = False
        self._asked: dict[int, int] = {}

    @property
    def within(self) -> bool:
        """Whether the present window is incomplete."""
        return any(asked % self.batches for asked in self._asked.values())

    def demand(self) -> None:
        """Raise Refused if no batch was divided."""
        if not self.divided:
            raise Refused(f"no DataLoader has a batch that can be divided by {self.batches}")

    def ends(self, optimizer: Optimizer) -> bool:
        """Whether a requested step of `optimizer` ends a window. Raises Refused."""
        self.demand()
        self._asked[id(optimizer)] = self._asked.get(id(optimizer), 0) + 1
        return self._asked[id(optimizer)] % self.batches == 0

    def clearing(self, zero_grad: Any) -> Any:
        """`zero_grad` that runs between windows only."""

        @functools.wraps(zero_grad)
        def method(owner: Any, *args: Any, **kwargs: Any) -> None:
            if not self.within:
                zero_grad(owner, *args, **kwargs)

        return method


def _dividing(init: Any, windows: _Windows) -> Any:
    @functools.wraps(init)
    def made(loader: Any, *args: Any, **kwargs: Any) -> None:
        given = arguments_of_loader(loader, *args, **kwargs)
        sampler, size = given.get("batch_sampler"), given.get("batch_size", 1)
        if sampler is not None and isinstance(getattr(sampler, "batch_size", None), int):
            size = sampler.batch_size
        if size is not None and size >= windows.batches:
            windows.divided = True
            size //= windows.batches
            if sampler is not None:
                sampler.batch_size = size
            else:
                given["batch_size"] = size
        init(loader, **given)

    return made


def _stepping(init: Any, windows: _Windows) -> Any:
    @functools.wraps(init)
    def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        init(optimizer, *args, **kwargs)
        kind = type(optimizer)

        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            return kind.step(self, *args, **kwargs) if windows.ends(self) else None

        optimizer.step = MethodType(step, optimizer)
        optimizer.zero_grad = MethodType(windows.clearing(kind.zero_grad), optimizer)

    return made
