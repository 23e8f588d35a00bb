"""Counting every operation that runs, forward and backward, with its dtypes and the line it comes from.

Operations are counted by key and never logged: a step has thousands of operations and some fifty kinds of them.
The names that begin with an underscore are not public API of PyTorch; tests/trace holds what is expected of them.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch._C import _RestorePythonTLSSnapshot as _outside  # type: ignore[attr-defined]
from torch.autograd import _get_sequence_nr as _sequence_number  # type: ignore[attr-defined]
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from amplint.trace.frames import NOWHERE, Line, calling_line
from amplint.trace.modules import Modules
from amplint.trace.record import Operation, dtype_name

_Key = tuple[str, Any, Any, Line, str, tuple[Any, ...], tuple[Any, ...], Any, str]


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations while `on`; `optimizing` says that what runs belongs to an optimizer's step."""

    def __init__(self, modules: Modules) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.on = False
        self.optimizing = False
        self.calls = _Calls()
        self._modules = modules
        self._counts: Counter[_Key] = Counter()
        self._origins: dict[int, tuple[Line, str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func` and count it."""
        result = func(*args, **(kwargs or {}))
        if self.on:
            self._count(func, args, kwargs, result)
        return result

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what runs in this context: it is the tracer's own."""
        before, self.on = self.on, False
        try:
            yield
        finally:
            self.on = before

    def end_step(self) -> None:
        """Forget which lines the backward pass of this step belongs to."""
        self._origins.clear()

    def operations(self) -> Counter[Operation]:
        """What was counted."""
        operations: Counter[Operation] = Counter()
        for (phase, func, api, (filename, row), module, inputs, outputs, region, device), count in self._counts.items():
            operation = Operation(
                phase,
                func._schema.name.rpartition("::")[2],
                resolve_name(api) or getattr(api, "__name__", "") if api is not None else "",
                filename,
                row,
                module,
                tuple(map(dtype_name, inputs)),
                tuple(map(dtype_name, outputs)),
                dtype_name(region) if region is not None else "",
                device,
            )
            operations[operation] += count
        return operations

    def _count(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        inputs = _tensors(args)
        if kwargs:
            inputs += _tensors(tuple(kwargs.values()))
        outputs = _tensors((result,))
        tensors = outputs or inputs
        if not tensors:
            return
        device = tensors[0].device.type
        node = torch._C._current_autograd_node()
        if node is not None and not torch.is_grad_enabled():
            phase, api = "backward", None
            line, module = self._origins.get(node._sequence_nr(), (NOWHERE, ""))
        else:
            phase = "optimizer" if self.optimizing else "forward" if node is None else "recomputation"
            api, line, module = self.calls.current, calling_line(), self._modules.current
            self._origins.setdefault(_sequence_number() - 1, (line, module))
        with _outside():  # the flag reads as off inside of a dispatch mode
            region = torch.get_autocast_dtype(device) if _autocasts(device) else None
        took, gave = tuple([tensor.dtype for tensor in inputs]), tuple([tensor.dtype for tensor in outputs])
        self._counts[phase, func, api, line, module, took, gave, region, device] += 1


class _Calls(TorchFunctionMode):
    """The outermost call of PyTorch's Python API that is running."""

    def __init__(self) -> None:
        super().__init__()
        self.current: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func` and remember it meanwhile."""
        before, self.current = self.current, func
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.current = before


def _autocasts(device: str) -> bool:
    try:
        return torch.is_autocast_enabled(device)
    except RuntimeError:  # a device without autocast, such as meta
        return False


def _tensors(values: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found
