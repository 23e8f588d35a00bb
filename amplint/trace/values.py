"""Inspection of tensor values without side effects on the run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from amplint.trace.tally import HALF

_PLAIN = (Tensor, Parameter)
_DTYPES = HALF | {torch.float32, torch.float64}


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Work on plain tensors hidden from all modes, the tracer's and the user's."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


def is_plain(tensor: Tensor) -> bool:
    """Whether `tensor` holds floating point values that can be read on a CPU or a CUDA device.

    Tensors of other classes (distributed, fake, nested) are excluded, and so are the zero tensors of forward-mode
    differentiation, which have no memory and crash PyTorch if they are read.
    """
    return (
        type(tensor) in _PLAIN
        and tensor.dtype in _DTYPES
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not tensor._is_zerotensor()
        and (tensor.is_cpu or tensor.is_cuda)
        and tensor.numel() > 0
    )


def total(tensor: Tensor) -> Tensor:
    """The sum, zero-dimensional, which is finite if all elements are, unless they approach float32's limit."""
    return tensor.sum(dtype=torch.float64 if tensor.dtype is torch.float64 else torch.float32)


def is_finite(tensor: Tensor) -> bool:
    """Whether all elements of `tensor` are finite.

    The sum is a hundred times as fast as testing each, and twice as fast without a change of dtype.
    """
    value = tensor.sum().item()
    if value - value != 0:
        value = total(tensor).item()
    return value - value == 0 or bool(tensor.isfinite().all())


def is_sound(tensor: Tensor) -> bool:
    """Whether all elements of `tensor` are finite, or cannot be read without synchronising with a device."""
    return not (tensor.is_cpu and is_plain(tensor)) or is_finite(tensor)


def has_infinite_scalar(values: Iterable[Any]) -> bool:
    """Whether a Python number among `values`, or in nested lists, is inf or NaN."""
    return any(
        value - value != 0
        if isinstance(value, float)
        else isinstance(value, (list, tuple)) and has_infinite_scalar(value)
        for value in values
    )


def in_float32(value: Any) -> Any:
    """`value` with half tensors and half dtypes replaced by float32."""
    if isinstance(value, Tensor):
        return value.float() if value.dtype in HALF else value
    if isinstance(value, torch.dtype):
        return torch.float32 if value in HALF else value
    if isinstance(value, (list, tuple)):
        return type(value)(in_float32(part) for part in value)
    return value


def sample(tensor: Tensor, size: int) -> Tensor:
    """At most `size` elements of `tensor` in one dimension, evenly spaced; often a view."""
    stride = -(-tensor.numel() // size)
    if tensor.is_contiguous():
        return tensor.detach().as_strided((-(-tensor.numel() // stride),), (stride,))
    return tensor.detach().reshape(-1)[::stride]
