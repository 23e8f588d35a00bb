"""Fourier transforms in float16, which cuFFT supports for powers of two and the CPU does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from amplint.torchlib.half_support import FFT
from amplint.torchlib.policy import words
from amplint.trace.placement import placement

_POWERS = (
    "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, but got a signal "
    "size of{}"
)
_WIDE = {torch.float16: torch.float32, torch.complex32: torch.complex64}
_NARROW = {wide: narrow for narrow, wide in _WIDE.items()}


def _transformed(func: Callable[..., torch.Tensor], tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Run a function of `torch.fft` in float32 and round. Raises RuntimeError for other sizes, as cuFFT does."""
    if tensor.dtype not in _WIDE or not placement.on_gpu(tensor):
        return func(tensor, *args, **kwargs)
    sizes = _sizes(func.__name__.removeprefix("fft_"), tensor, *args, **kwargs)
    if any(size & (size - 1) for size in sizes):
        raise RuntimeError(_POWERS.format(sizes))
    result = func(tensor.to(_WIDE[tensor.dtype]), *args, **kwargs)
    return result.to(_NARROW[result.dtype])


def _sizes(
    name: str, tensor: torch.Tensor, n: Any = None, dim: Any = None, norm: Any = None, **others: Any
) -> list[int]:
    """The signal sizes of a transform; for several dimensions, the parameter is `s` and not `n`."""
    lengths = others.get("s", n)
    if dim is None:
        dim = (-2, -1) if name.endswith("2") else tuple(range(tensor.dim())) if name.endswith("n") else -1
        dim = dim[-len(lengths) :] if name.endswith("n") and lengths is not None else dim
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    sizes = [tensor.shape[axis] for axis in dims]
    if name.startswith(("irfft", "hfft")):
        sizes[-1] = 2 * (sizes[-1] - 1)
    given = [] if lengths is None else [lengths] if isinstance(lengths, int) else list(lengths)
    return [size if length == -1 else length for size, length in zip(sizes, given or sizes, strict=True)]


TRANSFORMS = {getattr(torch.fft, name): _transformed for name in FFT | words("hfft2 ihfft2 hfftn ihfftn")}
"""Functions of `torch.fft` -> their replacement."""
