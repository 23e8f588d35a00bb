"""CUDA kernels that save other tensors for the backward pass than the CPU's.

Dropout saves a mask of one byte per element, not the factors; attention is one kernel that saves no matrix of weights,
and an RMSNorm one that saves its input; softmax of float16 reads its input without a copy in float32. The choice of
the attention kernel follows PyTorch's aten/src/ATen/native/transformers/cuda/sdp_utils.cpp; cuDNN's on Hopper saves
what FlashAttention saves.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.library import Library
from torch.nn.functional import pad

from amplint.trace.gpus import Gpu
from amplint.trace.placement import placement
from amplint.trace.tally import HALF

aten = torch.ops.aten
_AMPERE = (8, 0)
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


@contextlib.contextmanager
def cuda_kernels(gpu: Gpu) -> Iterator[None]:
    """Let operations on GPU tensors save what they would save on `gpu`."""
    library: Any = Library("aten", "IMPL", "AutogradCPU")  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for overridden kernels
            for operator, kernel in _kernels(gpu).items():
                library.impl(operator, _where_placed(operator, kernel))
        yield
    finally:
        library._destroy()


def _where_placed(operator: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(first: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        known = not isinstance(first, FakeTensor) or not placement.on_gpu(first)
        result = NotImplemented if known else kernel(first, *args, **kwargs)
        return operator._op_dk(_COMPOSITE, first, *args, **kwargs) if result is NotImplemented else result

    return chosen


def _kernels(gpu: Gpu) -> dict[Any, Callable[..., Any]]:
    """Operator -> its replacement, which returns NotImplemented where it does not apply."""

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return _attention(gpu, query, key, value, *args, **kwargs)

    fused = {aten._fused_rms_norm.default: _rms_norm} if hasattr(aten, "_fused_rms_norm") else {}
    return {
        **fused,
        aten.dropout.default: _dropout,
        aten.scaled_dot_product_attention.default: attention,
        aten.softmax.int: _softmax(aten._softmax.default),
        aten.log_softmax.int: _softmax(aten._log_softmax.default),
    }


def _dropout(tensor: torch.Tensor, p: float, train: bool) -> Any:
    return aten.native_dropout(tensor, p, True)[0] if train and 0 < p < 1 and tensor.numel() else NotImplemented


class _RmsNorm(torch.autograd.Function):
    """One kernel that saves its input and a number per row; only shapes matter here."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = tensor.shape[: tensor.dim() - len(shape)]
        result, scales = torch.empty_like(tensor), tensor.new_empty((*rows, *(1 for _ in shape)), dtype=torch.float32)
        ctx.save_for_backward(tensor, weight, scales)
        ctx.mark_non_differentiable(scales)
        return result, scales

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: object) -> tuple[torch.Tensor, None, torch.Tensor | None]:
        tensor, weight, _ = ctx.saved_tensors
        return torch.empty_like(tensor), None, torch.empty_like(weight) if weight is not None else None


def _rms_norm(tensor: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, eps: float | None) -> Any:
    return _RmsNorm.apply(tensor, shape, weight)  # type: ignore[no-untyped-call]


def _softmax(operator: Any) -> Callable[..., Any]:
    def kernel(tensor: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> Any:
        lifts = tensor.dtype == torch.float16 and dtype == torch.float32
        return operator(tensor, dim, True) if lifts else NotImplemented

    return kernel


def _attention(
    gpu: Gpu,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    size, sizes = query.shape[-1], {tensor.shape[-1] for tensor in (query, key, value)}
    plain = query.dim() == 4 and len({query.dtype, key.dtype, value.dtype}) == 1
    half = query.dtype in HALF
    allowed: Any = torch.backends.cuda
    flash = half and attn_mask is None and gpu.capability >= _AMPERE and sizes == {size} and size <= 256
    if plain and flash and allowed.flash_sdp_enabled():
        scale = size**-0.5 if scale is None else scale
        padded = [pad(tensor, (0, -size % 8)) if size % 8 else tensor for tensor in (query, key, value)]
        return aten._scaled_dot_product_flash_attention(*padded, dropout_p, is_causal, scale=scale)[0][..., :size]
    aligned = not any(each % (8 if half else 4) for each in sizes) and query.dtype != torch.float64
    if plain and aligned and not enable_gqa and allowed.mem_efficient_sdp_enabled():
        keeps = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
        rest = _bias(attn_mask, query, key), keeps, dropout_p, is_causal
        return aten._scaled_dot_product_efficient_attention(query, key, value, *rest, scale=scale)[0]
    math = aten._scaled_dot_product_attention_math
    return math(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]


def _bias(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, -float("inf"))
    return mask.expand(*query.shape[:-1], key.shape[-2])
