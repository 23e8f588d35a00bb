"""Calls that reach PyTorch: the one that runs, the arguments of modules and optimizers, and exceptions."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode, resolve_name

from amplint.trace.data import Call, Failure, dtype_name
from amplint.trace.frames import NOWHERE, Line, calling, calling_line, calling_lines, is_own
from amplint.trace.modules import Modules
from amplint.trace.placement import device_type
from amplint.trace.regions import Regions

_FAILURES = 100
"""So many are kept: a script may try and fail in a loop."""
_BACKWARD: Any = Tensor.backward
_COUNTED = frozenset({Tensor.numpy, _BACKWARD})
"""Calls that may run no operation at their line."""
_GRADIENTS = frozenset({_BACKWARD, torch.autograd.backward, torch.autograd.grad})
"""Calls that compute gradients."""
_PLAIN = (Tensor, nn.Parameter)
_OTHERS = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})
"""Most of what operators get besides tensors and lists."""
_Key = tuple[str, str, Line, tuple[torch.dtype, ...], tuple[torch.dtype, ...], Any]


class Calls(TorchFunctionMode):
    """The outermost running call of the Python API of PyTorch, and counts of calls while `is_on()`.

    `backwards` counts all calls of `Tensor.backward`. Each runs in the context that `around` returns for its loss and
    for whether it is `plain`, without other gradients or a new graph. While `is_on()`, `on_backward` is called with the
    line and loss of each, and `on_gradients` with the losses and the result of each gradient computation.
    """

    def __init__(
        self,
        modules: Modules,
        regions: Regions,
        is_on: Callable[[], bool],
        around: Callable[..., AbstractContextManager[None]],
    ) -> None:
        super().__init__()
        self.current: Any = None
        self.backwards = 0
        self.on_backward: Callable[[Line, Any], None] | None = None
        self.on_gradients: Callable[[Any, Any], None] | None = None
        self._lines: tuple[Line, Line] | None = None
        self._modules = modules
        self._regions = regions
        self._is_on = is_on
        self._around = around
        self._counts: Counter[_Key] = Counter()
        self._failures: dict[Failure, None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func` as the current call."""
        before, lines, self.current, self._lines = self.current, self._lines, func, None
        if func in _COUNTED:
            where = calling_line()
            if func is _BACKWARD:
                self.backwards += 1
                if self.on_backward is not None and self._is_on():
                    self.on_backward(where, args[0])
            self._count(name_of(func), "", where, args, ())
        try:
            if func not in _GRADIENTS:
                return func(*args, **kwargs) if kwargs else func(*args)
            plain = all(value is None or value is False for name, value in kwargs.items() if name != "retain_graph")
            with self._around(args[0], plain=plain) if func is _BACKWARD else contextlib.nullcontext():
                result = func(*args, **(kwargs or {}))
            if self.on_gradients is not None:
                self.on_gradients(args[0] if args else None, result)
            return result
        except Exception as failure:
            self.failed(failure, *calling_line(), api=name_of(func))
            raise
        finally:
            self.current, self._lines = before, lines

    def lines(self, frame: FrameType | None) -> tuple[Line, Line]:
        """The innermost line of the user's code, and that of a library called from it, from `frame` on.

        They are looked up once per call, unless the call runs code of user or library, whose lines have to be searched.
        """
        caller, library = calling(frame, until=_CALL)
        if caller is None:
            return NOWHERE, library
        if caller.f_code is not _CALL:
            return (caller.f_code.co_filename, caller.f_lineno), library
        if self._lines is None:
            self._lines = calling_lines(caller)
        return self._lines if library is NOWHERE else (self._lines[0], library)

    def follow_modules(self) -> Callable[[], None]:
        """Count calls of modules by the user's code until the returned function is called.

        Call it before `Modules.attach`, so that paths are known in the hook.
        """
        handle = hooks.register_module_forward_hook(self._called)
        return handle.remove

    def stepped(self, optimizer: Optimizer) -> None:
        """Count a step of an optimizer."""
        with torch._C.DisableTorchFunction():
            parameters = {one.dtype: one for group in optimizer.param_groups for one in group["params"]}
        self._count(f"{type(optimizer).__name__}.step", "", calling_line(), parameters.values(), ())

    def failed(self, failure: BaseException, filename: str, row: int, *, api: str = "") -> None:
        """Record an exception raised at a line of the user's code."""
        text = " ".join(str(failure).split())
        known = (failure for failure in self._failures if (failure.filename, failure.row) == (filename, row))
        if row and len(self._failures) < _FAILURES and not any(one.message == text for one in known):
            self._failures[Failure(type(failure).__name__, text, api, filename, row)] = None

    def forget(self) -> None:
        """Reset the counts."""
        self._counts.clear()

    def seen(self) -> Counter[Call]:
        """The counted calls."""
        calls: Counter[Call] = Counter()
        for (name, path, line, took, gave, region), count in self._counts.items():
            dtypes = [tuple(map(dtype_name, some)) for some in (took, gave)]
            calls[Call(name, path, *line, dtypes[0], dtypes[1], dtype_name(region) if region else "")] += count
        return calls

    def failures(self) -> list[Failure]:
        """The recorded exceptions, each message once per line."""
        return list(self._failures)

    def _called(self, module: nn.Module, inputs: Any, output: Any) -> None:
        caller: FrameType | None = sys._getframe(1)
        while caller is not None and caller.f_code.co_filename == hooks.__file__:
            caller = caller.f_back
        if caller is not None and is_own(caller.f_code):
            line = caller.f_code.co_filename, caller.f_lineno
            self._count(type(module).__name__, self._modules.current, line, inputs, (output,))

    def _count(self, name: str, path: str, line: Line, inputs: Iterable[Any], outputs: Iterable[Any]) -> None:
        if self._is_on():
            with torch._C.DisableTorchFunction():  # the mode intercepts every access to a tensor's attributes
                took, gave = tensors(inputs), tensors(outputs)
                region = self._regions.outside(device_type((took or gave)[0])) if took or gave else None
                dtypes = [tuple([one.dtype for one in some]) for some in (took, gave)]
            self._counts[name, path, line, dtypes[0], dtypes[1], region] += 1


_CALL = Calls.__torch_function__.__code__


def name_of(func: Any) -> str:
    """The qualified name, such as `torch.nn.functional.linear`."""
    return str(resolve_name(func) or getattr(func, "__name__", ""))


def tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among `values` and in nested lists and tuples."""
    found: list[Tensor] = []
    for value in values:
        kind = type(value)
        if kind in _PLAIN:
            found.append(value)
        elif kind in _OTHERS:
            continue
        elif isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors(value)
    return found
