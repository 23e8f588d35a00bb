"""Tensors without numbers: those on the GPU, parameters and large ones of the host take no memory and no time.

What stays real is what decides shapes: data as a script reads it, indices, single numbers. An operation with a fake
operand has a fake result, whose numbers, where a script asks for them, are ones, and zeros for integers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from amplint.trace.memory.refused import DependsOnValues
from amplint.trace.placement import placement
from amplint.trace.tally import op_name

_LARGE = 2**16
"""Elements from which on floating-point tensors that are made on the host are fake."""


class Fakes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes with fake tensors where that is enough. It is the innermost mode, for it decides what runs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._real = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func`. Raises DependsOnValues."""
        kwargs = kwargs or {}
        if self._real or func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        operands = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        if any(isinstance(operand, FakeTensor) for operand in operands):
            if func is torch.ops.aten._local_scalar_dense.default:
                return self.stand_in(args[0]).item()
            return self._fake(func, args, kwargs)
        if operands:
            gpu = placement.wanted if placement.wanted is not None else any(map(placement.on_gpu, operands))
            fake = gpu and not func.is_view and any(operand.dim() for operand in operands)
            return self._fake(func, args, kwargs) if fake else func(*args, **kwargs)
        made = self._fake(func, args, kwargs)
        return made if _is_better_fake(made) else func(*args, **kwargs)

    def _fake(self, func: Any, args: Any, kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction(), self._mode:
            try:
                return func(*args, **kwargs)
            except (DataDependentOutputException, DynamicOutputShapeException):
                raise DependsOnValues(f"how large the result of {op_name(func)} is depends on values") from None

    def parameter(self, data: torch.Tensor) -> torch.Tensor:
        """A fake tensor in the place of what a parameter is made of."""
        if isinstance(data, FakeTensor):
            return data
        with self._mode, placement.making(placement.on_gpu(data)):
            return torch.empty_like(data)

    def stand_in(self, tensor: torch.Tensor) -> torch.Tensor:
        """A real tensor on the host in the place of a fake one: of ones, or of zeros where it holds integers."""
        self._real = True
        try:
            make = torch.ones if tensor.is_floating_point() or tensor.is_complex() else torch.zeros
            with placement.making(False):
                return make(tensor.shape, dtype=tensor.dtype)
        finally:
            self._real = False


def _is_better_fake(made: Any) -> bool:
    """Whether what was made out of nothing can stay fake."""
    if not isinstance(made, torch.Tensor) or not made.dim():
        return False
    gpu = placement.wanted if placement.wanted is not None else placement.around
    return gpu or (made.is_floating_point() and made.numel() >= _LARGE)


_new_parameter: Any = nn.Parameter.__new__


def new_parameter(fakes: Fakes) -> Any:
    """What makes fake parameters in the place of `nn.Parameter.__new__`."""

    def new(kind: Any, data: torch.Tensor | None = None, requires_grad: bool = True) -> Any:
        if data is not None and kind is nn.Parameter:
            data = fakes.parameter(data)
        return _new_parameter(kind, data, requires_grad)

    return new
