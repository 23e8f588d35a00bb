"""Tensors without data: parameters and large tensors take no memory and no time.

Values that decide shapes stay real: data as a script reads it, labels, masks, single numbers. An operation with a fake
operand has a fake result. Numbers that a script reads are plausible: ones, and zeros for integers.
"""

from __future__ import annotations

from collections.abc import Sequence
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

from amplint.trace.memory.parallel import exchanged
from amplint.trace.memory.refused import DependsOnValues
from amplint.trace.placement import placement
from amplint.trace.tally import op_name

_LARGE = 2**16
"""The number of elements from which tensors on the GPU, and floating-point tensors of the host, are fake."""
_INDEXING = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default)


class Fakes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes with fake tensors where that is enough. It is the innermost mode, since it decides what runs."""

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
            return self._without_numbers(func, args, kwargs)
        gpu = placement.wanted if placement.wanted is not None else any(map(placement.on_gpu, operands))
        if func.is_view or (operands and not gpu):
            return func(*args, **kwargs)
        try:
            made = self._fake(func, args, kwargs)
        except DependsOnValues:
            return func(*args, **kwargs)
        return made if _is_large(made, gpu or (placement.around and not operands)) else func(*args, **kwargs)

    def _without_numbers(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func.namespace == "c10d":
            return exchanged(func, args)
        if func is torch.ops.aten._local_scalar_dense.default:
            return self.stand_in(args[0]).item()
        if func is torch.ops.aten._pack_padded_sequence.default and not isinstance(args[1], FakeTensor):
            return _packed(*args)
        if func in _INDEXING:
            args = (args[0], _positions(args[1]), *args[2:])
        result = self._fake(func, args, kwargs)
        if op_name(func) in ("all", "_is_all_true"):
            result.all_hold = True  # a test of all its numbers is expected to hold
        return result

    def _fake(self, func: Any, args: Any, kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction(), self._mode:
            try:
                return func(*args, **kwargs)
            except (DataDependentOutputException, DynamicOutputShapeException):
                raise DependsOnValues(f"how large the result of {op_name(func)} is depends on values") from None

    def parameter(self, data: torch.Tensor) -> torch.Tensor:
        """A fake tensor to construct a parameter from."""
        if isinstance(data, FakeTensor):
            return data
        with self._mode, placement.making(placement.on_gpu(data)):
            return torch.empty_like(data)

    def stand_in(self, tensor: torch.Tensor) -> torch.Tensor:
        """A real tensor on the host instead of a fake one: of ones, or of zeros for integers."""
        self._real = True
        try:
            ones = tensor.is_floating_point() or tensor.is_complex() or hasattr(tensor, "all_hold")
            with placement.making(False):
                return (torch.ones if ones else torch.zeros)(tensor.shape, dtype=tensor.dtype)
        finally:
            self._real = False


def _is_large(made: Any, gpu: bool) -> bool:
    """Whether a result computed from real operands, or from none, is too large to be real."""
    tensors = [value for value in tree_leaves(made) if isinstance(value, torch.Tensor)]
    return any(tensor.numel() >= _LARGE and (gpu or tensor.is_floating_point()) for tensor in tensors)


def _positions(indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """The indices of true elements of real masks; other indices unchanged."""
    found: list[torch.Tensor | None] = []
    for index in indices:
        known = isinstance(index, torch.Tensor) and index.dtype == torch.bool and not isinstance(index, FakeTensor)
        found += index.nonzero().unbind(1) if known and index is not None else [index]
    return found


def _packed(padded: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The packed steps of sequences with known descending lengths, and the number of sequences at each step."""
    sizes = (lengths > torch.arange(int(lengths[0]))[:, None]).sum(1)
    return padded.new_empty((int(lengths.sum()), *padded.shape[2:])), sizes


_new_parameter: Any = nn.Parameter.__new__


def new_parameter(fakes: Fakes) -> Any:
    """A replacement of `nn.Parameter.__new__` that makes fake parameters."""

    def new(kind: Any, data: torch.Tensor | None = None, requires_grad: bool = True) -> Any:
        if data is not None and kind is nn.Parameter:
            data = fakes.parameter(data)
        return _new_parameter(kind, data, requires_grad)

    return new
