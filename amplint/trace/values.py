"""Looking at tensors' numbers without changing anything that the run could notice."""

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
    """Work on plain tensors that no mode sees, neither the tracer's own nor one of the user's."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


def is_plain(tensor: Tensor) -> bool:
    """Whether `tensor` holds floating point numbers that a CPU or a CUDA device can be asked about.

    Tensors of other classes (distributed, fake, nested ones) are left alone, and so are the zeros
    without memory of forward-mode differentiation, which crash PyTorch where they are asked for their numbers.
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
    """The sum, without dimensions, which is finite where all numbers are unless they come near float32's limit."""
    return tensor.sum(dtype=torch.float64 if tensor.dtype is torch.float64 else torch.float32)


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers of `tensor` are finite.

    The sum is a hundred times as fast as looking at each, and twice as fast without a change of dtype.
    """
    value = tensor.sum().item()
    if value - value != 0:
        value = total(tensor).item()
    return value - value == 0 or bool(tensor.isfinite().all())


def is_sound(tensor: Tensor) -> bool:
    """Whether all numbers of `tensor` are finite, or cannot be asked for without waiting for a device."""
    return not (tensor.is_cpu and is_plain(tensor)) or is_finite(tensor)


def has_infinite_scalar(values: Iterable[Any]) -> bool:
    """Whether a Python number among `values`, or in lists there, is inf or NaN."""
    return any(
        value - value != 0
        if isinstance(value, float)
        else isinstance(value, (list, tuple)) and has_infinite_scalar(value)
        for value in values
    )


def in_float32(value: Any) -> Any:
    """`value` with half tensors, and half dtypes, among it replaced by float32."""
    if isinstance(value, Tensor):
        return value.float() if value.dtype in HALF else value
    if isinstance(value, torch.dtype):
        return torch.float32 if value in HALF else value
    if isinstance(value, (list, tuple)):
        return type(value)(in_float32(part) for part in value)
    return value


def sample(tensor: Tensor, size: int) -> Tensor:
    """At most `size` numbers of `tensor` in one dimension, evenly spread; often a view."""
    stride = -(-tensor.numel() // size)
    if tensor.is_contiguous():
        return tensor.detach().as_strided((-(-tensor.numel() // stride),), (stride,))
    return tensor.detach().reshape(-1)[::stride]
