"""Workspaces: memory that CUDA's libraries allocate beside the results of operations.

Sources: https://docs.pytorch.org/docs/stable/notes/cuda.html#cublas-workspaces, PyTorch's
aten/src/ATen/cuda/CublasHandlePool.cpp for their sizes, and mha_bwd in its
aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp.
"""

from __future__ import annotations

from typing import Any

import torch

from amplint.torchlib.catalogue import operations_with
from amplint.trace.gpus import Gpu

_PRODUCTS = operations_with("blas")
_KIB = 1024
_HOPPER = (9, 0)


def cublas(name: str, gpu: Gpu) -> int:
    """The bytes that cuBLAS allocates per handle at its first operation; 0 for operators that it does not run.

    Forward and backward have a handle each, since they run in two threads.
    """
    if name not in _PRODUCTS:
        return 0
    return 4096 * 8 * _KIB if gpu.capability == _HOPPER else (4096 * 2 + 16 * 8) * _KIB


def transient(name: str, args: Any) -> int:
    """The bytes that a backward operation allocates while it runs, as far as they are known."""
    if name != "_scaled_dot_product_flash_attention_backward":
        return 0
    query: torch.Tensor = args[1]
    batch, heads, length, size = query.shape
    rows, columns = _rounded_up(length, 128), _rounded_up(size, 32)
    return 4 * batch * heads * rows * (columns + 1)


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
