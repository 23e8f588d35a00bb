"""Errors that a GPU raises and a CPU does not: operands on two devices, and dtypes without a CUDA kernel.

Source: PyTorch's checks in aten/src/ATen/native, and its own list of what CUDA supports (`torch.testing`'s OpInfo),
with which tests/trace/test_dry_operators.py compares.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.half_support import CUDA_GAINED, CUDA_LACKS, LIFTED, NEVER
from amplint.torchlib.policy import words
from amplint.trace.placement import placement

_APART = "Expected all tensors to be on the same device, but found at least two devices, {} and cpu!"
_INDICES = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
_LENGTHS = "'lengths' argument should be a 1D CPU int64 tensor, but got 1D {} Long tensor"
_FREE = words("_to_copy copy_ _foreach_copy_ set_ _pad_packed_sequence _pack_padded_sequence_backward")
"""Operators that accept operands on two devices."""
_NO_SCALARS = words(
    "cat stack embedding index_select gather take scatter scatter_add index_add index_copy nll_loss_forward"
)
"""Operators that refuse a CPU tensor even without dimensions."""
_ONE_DTYPE = words("native_layer_norm native_group_norm")
"""Operators whose weights must have the dtype of their input."""
_NOT_FOR_INTEGERS = operations_with("blas") | words(
    "convolution avg_pool2d avg_pool3d max_pool2d_with_indices max_pool3d_with_indices"
)
_VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
_LACKING = CUDA_LACKS - {name for name, since in CUDA_GAINED.items() if since <= _VERSION}
_NOT_ON_CUDA = words("histogram _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors")
_NAMES = {torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "Float"}
_INTEGERS = {torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte"}


def refuse(name: str, args: Sequence[Any], operands: Sequence[torch.Tensor], placed: Sequence[bool]) -> None:
    """Raise RuntimeError for a call that CUDA refuses; `placed` marks the operands on the GPU, at least one."""
    if not all(placed) or name == "_pack_padded_sequence":
        check: Callable[..., None] = _DEVICES.get(name, _devices)
        check(name, args, operands, placed)
    dtypes = {operand.dtype for operand in operands}
    half = next((_NAMES[dtype] for dtype in dtypes if dtype in (torch.float16, torch.bfloat16)), None)
    if half and function(name) in _LACKING:
        raise NotImplementedError(f"\"{name}_cuda\" not implemented for '{half}'")
    if name in _NOT_FOR_INTEGERS and operands[0].dtype in _INTEGERS:
        raise NotImplementedError(f"\"{name}_cuda\" not implemented for '{_INTEGERS[operands[0].dtype]}'")
    if name in _ONE_DTYPE and len(dtypes) > 1:
        first, other = operands[0].dtype, next(one.dtype for one in operands if one.dtype != operands[0].dtype)
        raise RuntimeError(f"expected scalar type {_NAMES.get(first, first)} but found {_NAMES.get(other, other)}")
    if name in _NOT_ON_CUDA:
        raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'CUDA' backend.")


def lacks_half(name: str) -> bool:
    """Whether the operator refuses half on the GPU as on the CPU."""
    return any(function(name).startswith(lacking) for lacking in NEVER | LIFTED)


@functools.cache
def function(name: str) -> str:
    """The function name of an operator: `svd` for `_linalg_svd`."""
    return name.strip("_").removeprefix("linalg_").removeprefix("special_")


def _devices(name: str, args: Sequence[Any], operands: Sequence[torch.Tensor], placed: Sequence[bool]) -> None:
    strict = name in _NO_SCALARS
    if any(not there and (strict or one.dim()) for one, there in zip(operands, placed, strict=True)):
        raise RuntimeError(_APART.format(placement.gpu))


def _nothing(*_: Any) -> None:
    return None


def _indexed(name: str, args: Sequence[Any], operands: Sequence[torch.Tensor], placed: Sequence[bool]) -> None:
    on_gpu = placement.on_gpu(args[0])
    if not on_gpu and any(index is not None and placement.on_gpu(index) for index in args[1]):
        raise RuntimeError(_INDICES)
    values = args[2] if len(args) > 2 else None
    if isinstance(values, torch.Tensor) and values.dim() and placement.on_gpu(values) != on_gpu:
        raise RuntimeError(_APART.format(placement.gpu))


def _packed(name: str, args: Sequence[Any], operands: Sequence[torch.Tensor], placed: Sequence[bool]) -> None:
    if placement.on_gpu(args[1]):
        raise RuntimeError(_LENGTHS.format(placement.gpu))


_DEVICES: dict[str, Callable[..., None]] = {
    **dict.fromkeys(_FREE, _nothing),
    **dict.fromkeys(words("index _unsafe_index index_put index_put_ _index_put_impl_ _unsafe_index_put"), _indexed),
    "_pack_padded_sequence": _packed,
}
