"""Dispatch of operators: the placement of results follows the operands, and operands on two devices are refused."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from amplint.torchlib.catalogue import operations_with
from amplint.trace.calls import tensors
from amplint.trace.dry.refusals import lacks_half, refuse
from amplint.trace.placement import placement
from amplint.trace.tally import op_name

_PRODUCTS = operations_with("blas") | operations_with("convolves")
"""Operators that a GPU computes in float32 and rounds to half. The CPU is very slow at them in float16."""
_SEQUENCES = frozenset({"_pack_padded_sequence", "_pad_packed_sequence"})
"""Operators with one result on the operand's device and lengths on the CPU."""
_TO_DTYPE = {"dtype": "", "dtype_out": "out"}
"""Overloads of CUDA alone with a dtype for the result -> those without it."""
_CPU = torch.device("cpu")
_WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


class Placing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tracks the placement of all tensors."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func`. Raises RuntimeError if a GPU would refuse its operands."""
        with torch._C.DisableTorchFunction():  # on in a backward pass, and slow
            return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    given = (*args, *kwargs.values())
    if torch.device in map(type, given) and any(map(_is_gpu, given)):  # called from PyTorch's C++ code
        with placement.making(True):
            on_cpu = [_CPU if _is_gpu(value) else value for value in given]
            return _run(func, on_cpu[: len(args)], dict(zip(kwargs, on_cpu[len(args) :], strict=True)))
    if not placement.used and not placement.wanted:  # nothing is on the GPU yet: a script prepares its data
        return func(*args, **kwargs)
    operands = tensors(given)
    placed = [placement.on_gpu(operand) for operand in operands]
    name = op_name(func) if isinstance(func, OpOverload) else ""
    gpu = any(placed)
    if gpu:
        refuse(name, args, operands, placed)
    result = _computed(func, name, args, kwargs) if gpu else func(*args, **kwargs)
    made = not operands or name == "lift_fresh"  # a literal constant
    if placement.wanted if placement.wanted is not None else gpu or (placement.around and made):
        for value in tensors((result[0],) if name in _SEQUENCES else (result,)):
            if value.device.type != "meta":
                placement.put(value, besides=() if made else operands)
    return result


def _is_gpu(value: Any) -> bool:
    return isinstance(value, torch.device) and value.type == "cuda"


def _computed(func: OpOverload, name: str, args: Any, kwargs: Any) -> Any:
    if name in _PRODUCTS and func._overloadname in _TO_DTYPE:
        return _into(func, args, kwargs)
    if name in _PRODUCTS and _dtypes((args, kwargs)) == {torch.float16}:
        return _in_float32(func, args, kwargs)
    try:
        return func(*args, **kwargs)
    except (NotImplementedError, RuntimeError) as failure:
        only_here = "not implemented for" in str(failure) and not lacks_half(name)
        if not only_here or _dtypes((args, kwargs)).isdisjoint(_WIDE):
            raise
        return _in_float32(func, args, kwargs)


def _into(func: OpOverload, args: Any, kwargs: Any) -> Any:
    """Run a product of half matrices with a float32 result, for which CUDA has kernels and the CPU none."""
    dtype = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.dtype))
    given = [value for value in args if not isinstance(value, torch.dtype)]
    named = {name: value for name, value in kwargs.items() if not isinstance(value, torch.dtype)}
    plain = getattr(func.overloadpacket, _TO_DTYPE[func._overloadname] or "default")

    def widened(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, torch.Tensor) else value

    out = named.pop("out", None)
    if out is not None:
        return plain(*tree_map(widened, given), **tree_map(widened, named), out=out)
    return plain(*tree_map(widened, given), **tree_map(widened, named))


def _in_float32(func: OpOverload, args: Any, kwargs: Any) -> Any:
    """Run `func` in float32, or complex64, and round the result to the dtype of its half operands."""
    half = next(iter(_dtypes((args, kwargs)) & _WIDE.keys()))
    real = torch.bfloat16 if half == torch.bfloat16 else torch.float16
    rounding = {torch.float32: real} | ({torch.complex64: torch.complex32} if real == torch.float16 else {})
    wide: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def widened(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != half:
            return value
        return wide.setdefault(id(value), (value, value.to(_WIDE[half])))[1]

    result = func(*tree_map(widened, args), **tree_map(widened, kwargs))
    if func._schema.is_mutable:
        for narrow, computed in wide.values():
            narrow.copy_(computed)
    owners = {id(computed): narrow for narrow, computed in wide.values()}

    def rounded(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype not in rounding:
            return value
        return owners[id(value)] if id(value) in owners else value.to(rounding[value.dtype])

    return tree_map(rounded, result)


def _dtypes(values: Any) -> set[torch.dtype]:
    return {value.dtype for value in tree_leaves(values) if isinstance(value, torch.Tensor)}
