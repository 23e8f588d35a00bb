"""`torch.cuda.FloatTensor` and its kin: constructors of tensors on the GPU, which are also classes of such tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import cuda

from amplint.torchlib.policy import words
from amplint.trace.dry.devices import default_device, moved
from amplint.trace.placement import placement
from amplint.trace.replaced import replaced

_NAMES = words("Float Double Half BFloat16 Long Int Short Char Byte Bool")


class _Kind(type):
    is_cuda = True
    dtype: torch.dtype
    of_cpu: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        return moved(cls.of_cpu(*args, **kwargs), True)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.dtype == cls.dtype and placement.on_gpu(value)


@contextlib.contextmanager
def tensor_kinds() -> Iterator[None]:
    """Provide the tensor types of `torch.cuda`, also as the default."""
    of_cpu = {f"{name}Tensor": getattr(torch, f"{name}Tensor") for name in _NAMES}
    kinds = {
        name: _Kind(name, (), {"__module__": "torch.cuda", "dtype": kind.dtype, "of_cpu": kind})
        for name, kind in of_cpu.items()
    }
    original, before = torch.set_default_tensor_type, default_device()

    def set_default(kind: Any) -> None:
        path = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        module, _, name = path.rpartition(".")
        original(of_cpu.get(name, kind))
        on_gpu = module == "torch.cuda"
        torch.set_default_device("cuda" if on_gpu else None)
        _make_there(on_gpu)

    with replaced(cuda, **kinds), replaced(torch, set_default_tensor_type=set_default):
        try:
            yield
        finally:
            torch.set_default_device(before)
            _make_there(False)


def _make_there(on: bool) -> None:
    """Place the result of `torch.Tensor(...)` on the GPU or not, as the default tensor type does."""
    if on:
        torch.Tensor.__new__ = _made_there  # type: ignore[assignment, method-assign]
    elif "__new__" in vars(torch.Tensor):
        del torch.Tensor.__new__


def _made_there(kind: type[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
    made: torch.Tensor = torch._C.TensorBase.__new__(kind, *args, **kwargs)
    return moved(made, True) if kind is torch.Tensor else made
