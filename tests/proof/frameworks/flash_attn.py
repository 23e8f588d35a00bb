"""Stands in for flash-attn: the checks of its kernels, and PyTorch's attention behind them."""

from __future__ import annotations

import torch
from torch.nn import functional


def flash_attn_func(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout_p: float = 0.0) -> torch.Tensor:
    """Attention on tensors of shape (batch, length, heads, features)."""
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    if k.dtype != q.dtype:
        raise RuntimeError("query and key must have the same dtype")
    if v.dtype != q.dtype:
        raise RuntimeError("query and value must have the same dtype")
    with torch.autocast("cuda", enabled=False):
        heads = (each.float().transpose(1, 2) for each in (q, k, v))
        return functional.scaled_dot_product_attention(*heads, dropout_p=dropout_p).transpose(1, 2).to(q.dtype)
