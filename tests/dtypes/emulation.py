"""CUDA's autocast on a machine without a GPU: the CPU's autocast kernels are replaced by what CUDA's do.

Which operator is treated how is derived from the running dispatcher. What autocast leaves alone runs on the CPU as it
would on CUDA, since type promotion is the same for both. An operator's own demands are checked by the CPU's kernels.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard
from torch._ops import OpOverload

from tests.autocast_policy import of_device

AUTOCAST = DispatchKeySet(DispatchKey.AutocastCPU)
Kernel = Callable[..., Any]


class Refused(RuntimeError):
    """Autocast raises."""


def _eligible(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.dtype is not torch.float64


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if _eligible(value):
        return value.to(dtype)
    if isinstance(value, (list, tuple)):
        return [_cast(inner, dtype) for inner in value]
    return value


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, (list, tuple)):
        for inner in value:
            yield from _tensors(inner)
    elif isinstance(value, Tensor):
        yield value


def _widest(values: Any) -> torch.dtype:
    """What the operators are given that autocast promotes the operands of. Raises Refused."""
    region = torch.get_autocast_dtype("cpu")
    current = region
    for one in _tensors(values):
        if _eligible(one):
            if torch.float32 in (current, one.dtype):
                current = torch.float32
            elif one.dtype != region:
                raise Refused("Unexpected floating ScalarType in at::autocast::prioritize")
    return current


def _lower(operator: OpOverload, *given: Any, **named: Any) -> Any:
    region = torch.get_autocast_dtype("cpu")
    return operator(*_cast(given, region), **{name: _cast(value, region) for name, value in named.items()})


def _float32(operator: OpOverload, *given: Any, **named: Any) -> Any:
    return operator(*_cast(given, torch.float32), **{k: _cast(value, torch.float32) for k, value in named.items()})


def _promote(operator: OpOverload, *given: Any, **named: Any) -> Any:
    dtype = _widest([*given, *named.values()])
    return operator(*_cast(given, dtype), **{name: _cast(value, dtype) for name, value in named.items()})


def _set_dtype(operator: OpOverload, *given: Any, **named: Any) -> Any:
    names = [argument.name for argument in operator._schema.arguments]
    values = {**dict(zip(names, given, strict=False)), **named}
    if _eligible(given[0]) and values.get("dtype") is None:
        values["dtype"] = torch.float32
    positional = [argument.name for argument in operator._schema.arguments if not argument.kwarg_only]
    kept = positional[: max([len(given), *(positional.index(name) + 1 for name in values if name in positional)])]
    first = {argument.name: argument.default_value for argument in operator._schema.arguments}
    return operator(
        *(values.get(name, first[name]) for name in kept), **{k: v for k, v in values.items() if k not in kept}
    )


def _append_dtype(operator: OpOverload, *given: Any, **named: Any) -> Any:
    return torch.ops.aten.norm(
        *_filled(operator, given, named), dtype=torch.float32 if _eligible(given[0]) else given[0].dtype
    )


def _filled(operator: OpOverload, given: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    rest = operator._schema.arguments[len(given) :]
    return [*given, *(named.get(argument.name, argument.default_value) for argument in rest)]


def _banned(operator: OpOverload, *given: Any, **named: Any) -> Any:
    raise Refused(f"{operator} is unsafe to autocast")


KERNELS: dict[str, Kernel] = {
    "lower": _lower,
    "float32": _float32,
    "float32_set_dtype": _set_dtype,
    "float32_append_dtype": _append_dtype,
    "promote": _promote,
    "banned": _banned,
}


def _without_autocast(kernel: Kernel, operator: OpOverload, *given: Any, **named: Any) -> Any:
    with _ExcludeDispatchKeyGuard(AUTOCAST):
        return kernel(operator, *given, **named)


def _operator(name: str) -> OpOverload:
    packet, _, overload = name.partition(".")
    found: OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return found


@contextlib.contextmanager
def cuda_policy() -> Iterator[None]:
    """Autocast on the CPU does what it does on CUDA."""
    treatments = of_device("cuda")
    treated = {name for names in treatments.values() for name in names}
    mine = [name for names in of_device("cpu").values() for name in names]
    before = torch.get_autocast_dtype("cpu")
    with torch.library._scoped_library("aten", "IMPL", "AutocastCPU") as library:
        for name in mine:
            if name not in treated:
                library.impl(name, torch.library.fallthrough_kernel, allow_override=True)
        for treatment, names in treatments.items():
            for name in names:
                kernel = functools.partial(_without_autocast, KERNELS[treatment], _operator(name))
                library.impl(name, kernel, allow_override=True)
        torch.set_autocast_dtype("cpu", torch.float16)
        try:
            yield
        finally:
            torch.set_autocast_dtype("cpu", before)
