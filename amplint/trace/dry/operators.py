"""What the dispatcher runs: results lie where their operands do, and operands on two devices are refused."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from amplint.torchlib.half_support import LIFTED, NEVER
from amplint.trace.placement import placement
from amplint.trace.tally import HALF, op_name

_BOTH = frozenset({"_to_copy", "copy_", "_foreach_copy_", "set_", "index", "index_put", "index_put_", "_unsafe_index"})
"""Operators whose operands can lie on two devices, indices for one."""
_PRODUCTS = frozenset({"addmm", "baddbmm", "bmm", "convolution", "convolution_backward", "mm"})
"""What a GPU computes in float32 and rounds to half. The CPU is very slow at it in float16."""
_APART = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"


class Placing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the placement of all tensors up to date."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func`. Raises RuntimeError where a GPU would refuse its operands."""
        kwargs = kwargs or {}
        operands = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        placed = [placement.on_gpu(operand) for operand in operands]
        name = op_name(func)
        gpu = any(placed)
        if gpu and name not in _BOTH and any(one.dim() and not at for one, at in zip(operands, placed, strict=True)):
            raise RuntimeError(_APART)
        result = _computed(func, name, args, kwargs) if gpu else func(*args, **kwargs)
        if placement.wanted if placement.wanted is not None else gpu or (placement.around and not operands):
            for value in tree_leaves(result):
                if isinstance(value, torch.Tensor):
                    placement.put(value, besides=operands)
        return result


def _computed(func: OpOverload, name: str, args: Any, kwargs: Any) -> Any:
    if name in _PRODUCTS and _dtypes((args, kwargs)) == {torch.float16}:
        return _in_float32(func, args, kwargs)
    try:
        return func(*args, **kwargs)
    except (NotImplementedError, RuntimeError) as failure:
        only_here = "not implemented for" in str(failure) and not _never(name)
        if not only_here or _dtypes((args, kwargs)).isdisjoint(HALF):
            raise
        return _in_float32(func, args, kwargs)


def _never(name: str) -> bool:
    """Whether the operator refuses half on the GPU, too."""
    return any(name.strip("_").removeprefix("linalg_").startswith(function) for function in NEVER | LIFTED)


def _in_float32(func: OpOverload, args: Any, kwargs: Any) -> Any:
    """Run `func` in float32 and round the result to the dtype of its half operands."""
    half = next(iter(_dtypes((args, kwargs)) & HALF))
    wide: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def widened(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != half:
            return value
        return wide.setdefault(id(value), (value, value.float()))[1]

    result = func(*tree_map(widened, args), **tree_map(widened, kwargs))
    if func._schema.is_mutable:
        for narrow, computed in wide.values():
            narrow.copy_(computed)
    owners = {id(computed): narrow for narrow, computed in wide.values()}

    def rounded(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        return owners[id(value)] if id(value) in owners else value.to(half)

    return tree_map(rounded, result)


def _dtypes(values: Any) -> set[torch.dtype]:
    return {value.dtype for value in tree_leaves(values) if isinstance(value, torch.Tensor)}
