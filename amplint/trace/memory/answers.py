"""Fake tensors as Python code sees them: their device, numbers to read, and parameters that keep their identity."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils
from torch.utils._pytree import tree_leaves, tree_map

from amplint.trace.memory.fakes import Fakes, new_parameter
from amplint.trace.placement import placement
from amplint.trace.replaced import replaced

_INSIDE = ("/torch/_subclasses/", "/torch/_meta_registrations", "/torch/_decomp/", "/torch/_refs/", "/torch/_prims")
"""Code that has to see the device fake tensors were made for."""
_DATA = (torch.Tensor, str, int, float, bytes, type(None))
_TENSOR: Any = torch.Tensor
_TO_NUMPY = frozenset({_TENSOR.numpy, _TENSOR.__array__})
_READERS = frozenset({_TENSOR.tolist, _TENSOR.__repr__, _TENSOR.__format__, _TENSOR.__contains__, *_TO_NUMPY})
_TESTS = frozenset({torch.isfinite, torch.isnan, torch.isinf, _TENSOR.isfinite, _TENSOR.isnan, _TENSOR.isinf})


class Answers(TorchFunctionMode):
    """Answers queries of a fake tensor's numbers, all of which are finite."""

    def __init__(self, fakes: Fakes) -> None:
        super().__init__()
        self._fakes = fakes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func`, on real numbers if it reads them."""
        kwargs = kwargs or {}
        if args and isinstance(args[0], FakeTensor):
            if func in _TESTS:
                return self._tested(func, args[0])
            if func is _TENSOR.__deepcopy__:
                return _deepcopy(*args)
            if func in _READERS and not (func in _TO_NUMPY and placement.on_gpu(args[0])):
                args = tree_map(self._readable, args)
        return func(*args, **kwargs)

    def _tested(self, func: Any, tensor: torch.Tensor) -> torch.Tensor:
        one = torch.ones((), dtype=tensor.dtype)
        result: torch.Tensor = func(one).expand(tensor.shape)
        if placement.on_gpu(tensor):
            placement.put(result)
        return result

    def _readable(self, value: Any) -> Any:
        return self._fakes.stand_in(value) if isinstance(value, FakeTensor) else value


def _deepcopy(tensor: torch.Tensor, memo: dict[int, Any]) -> Any:
    if id(tensor) not in memo:
        copy = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        if isinstance(tensor, nn.Parameter):
            copy = nn.Parameter(copy, tensor.requires_grad)
        if tensor.grad is not None:
            copy.grad = tensor.grad.detach().clone()
        memo[id(tensor)] = copy
    return memo[id(tensor)]


@contextlib.contextmanager
def faked(fakes: Fakes) -> Iterator[None]:
    """Use fake parameters, let optimizers accept fake tensors, and save no fake tensor."""
    optimizers: Any = import_module("torch.optim.optimizer")
    foreach: Any = _foreach_utils
    with contextlib.ExitStack() as stack:
        stack.enter_context(Answers(fakes))
        stack.enter_context(replaced(nn.Parameter, __new__=new_parameter(fakes)))
        stack.enter_context(replaced(FakeTensor, device=property(_device)))
        stack.enter_context(replaced(torch, save=_saving(torch.save)))
        stack.enter_context(replaced(torch.utils, swap_tensors=_take_over))
        for module in (optimizers, foreach):
            ordinary = [*module._foreach_supported_types, FakeTensor]
            stack.enter_context(replaced(module, _foreach_supported_types=ordinary))
        yield


def _saving(save: Any) -> Any:
    """`torch.save` for data; models and checkpoints are not written."""

    def saved(content: object, *args: Any, **kwargs: Any) -> None:
        if all(isinstance(value, _DATA) and not isinstance(value, FakeTensor) for value in tree_leaves(content)):
            save(content, *args, **kwargs)

    return saved


def _take_over(tensor: torch.Tensor, converted: torch.Tensor) -> None:
    """Update an ordinary parameter as `Module.to` does: the object stays the same, with the converted data."""
    tensor.data = converted.data


def _device(tensor: FakeTensor) -> torch.device:
    if tensor.fake_mode.in_kernel_invocation:
        return torch.device("meta")
    asking = sys._getframe(1).f_code.co_filename.replace("\\", "/")
    inside = any(part in asking for part in _INSIDE)
    return placement.gpu if not inside and placement.on_gpu(tensor) else tensor.fake_device
