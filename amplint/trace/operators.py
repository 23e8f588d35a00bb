"""Counts of every operation, forward and backward, with its dtypes and line.

Operations are counted by kind, never logged: a step has thousands of operations and some fifty kinds of them. This code
runs for every operation, so it is short, and whatever can be computed once per kind is.
The names that begin with an underscore are not public API of PyTorch; tests/trace verifies what is assumed of them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, is_grad_enabled
from torch._C import _current_autograd_node as _autograd_node
from torch._ops import OpOverload
from torch.autograd import _get_sequence_nr as _sequence_number  # type: ignore[attr-defined]
from torch.overrides import _get_current_function_mode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from amplint.trace.calls import Calls, tensors
from amplint.trace.data import Operation
from amplint.trace.float8 import takes_scales
from amplint.trace.frames import ENGINE, NOWHERE, Line, is_called_back, is_own
from amplint.trace.modules import Modules
from amplint.trace.numerics import Numerics
from amplint.trace.passes import Passes
from amplint.trace.placement import device_type
from amplint.trace.regions import Regions
from amplint.trace.tally import Kind, may_overflow, replayable
from amplint.trace.values import is_sound

_dtype = attrgetter("dtype")
_UNKNOWN: tuple[Line, Line, str] = (NOWHERE, NOWHERE, "")


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations while `on`, those of optimizers only with `optimizers`.

    While `alert`, and not `on`, forward operations are not counted, and only their results are checked. Most operations
    of a step on a CPU belong to the optimizer, a dozen for each parameter; to skip them, the modes are removed from the
    stack of PyTorch meanwhile. The same holds for the dispatch mode during backward passes that are not counted, or
    whose operations are known and whose values no check reads.
    """

    supports_higher_order_operators = True

    def __init__(self, modules: Modules, *, optimizers: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.on = self.alert = False
        self.numerics: Numerics | None = None
        self._optimizers = optimizers
        self._optimizing = False
        self._attached = False
        self._depth = (0, 0)
        self.regions = Regions()
        self.calls = Calls(modules, self.regions, lambda: self.on, self._backward)
        self._modules = modules
        self._kinds: dict[tuple[Any, ...], Kind] = {}
        self._passes = Passes(self._kinds)
        self._origins: dict[int, tuple[Line, Line, str]] = {}
        self._is_written_out = functools.cache(_is_written_out)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Disable the wrapper that disables dynamo, which costs 2 us per operation: nothing is compiled meanwhile."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func` and count it, or leave it to a tensor class that computes with others, which are counted then."""
        if types and (self.on or self.alert) and any(map(_is_wrapper, types)):
            return NotImplemented
        if not self.on or not isinstance(func, OpOverload):
            if self.alert and self.numerics is not None and self.numerics.makes_numbers(func):
                return self._run_alert(self.numerics, func, args, kwargs or {})
            return func(*args, **(kwargs or {}))
        numerics = self.numerics
        began = numerics is None or numerics.before(func, args, kwargs)
        run = func._op if type(func) is OpOverload else func
        started = perf_counter()
        result = run(*args, **kwargs) if kwargs else run(*args)
        seconds = perf_counter() - started
        inputs = tensors(args)
        if kwargs:
            inputs += tensors(kwargs.values())
        outputs = [result] if isinstance(result, Tensor) else tensors((result,))
        if inputs or outputs:
            kind = self._kind(func, inputs, outputs)
            kind.count += 1
            kind.seconds += seconds
            if numerics is not None:
                numerics.look(kind, args, kwargs, inputs, outputs, began)
        return result

    def attach(self) -> None:
        """Push the modes onto PyTorch's stack."""
        self.calls.__enter__()  # type: ignore[no-untyped-call]
        self.__enter__()  # type: ignore[no-untyped-call]
        self._attached = True

    def detach(self) -> None:
        """Remove the modes from the stack."""
        if self._attached:
            self._attached = False
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self.calls.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def optimize(self, working: bool) -> None:
        """An optimizer or a scaler begins to work, or ends."""
        self._optimizing = working
        if self._optimizers or working != self._attached:
            return
        if not working and self._depth == _stacks():
            self.attach()
        elif working and self._is_innermost():
            self.detach()
            self._depth = _stacks()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the tracer's own operations in this context."""
        before = self.on, self.alert
        self.on = self.alert = False
        try:
            yield
        finally:
            self.on, self.alert = before

    @contextlib.contextmanager
    def _backward(self, loss: Tensor, *, plain: bool) -> Iterator[None]:
        """Observe the backward pass from `loss` within this context, if that is necessary."""
        if not self._attached or _get_current_dispatch_mode() is not self or (self.on and self.numerics is not None):
            yield
            return
        graph = self._passes.begin(loss) if self.on else 0
        if self.on and not (plain and self._passes.knows(graph)):
            with self._passes.observing(graph) if plain else contextlib.nullcontext():
                yield
            return
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            self.__enter__()  # type: ignore[no-untyped-call]
        if self.on:
            self._passes.count(graph)

    def end_step(self) -> None:
        """Discard the lines to which the backward pass of this step belongs."""
        self._origins.clear()
        self._passes.begin_step()

    def forget(self) -> None:
        """Reset the counts."""
        self._kinds.clear()
        self._passes.forget()
        self.calls.forget()

    def operations(self) -> tuple[Counter[Operation], dict[Operation, float]]:
        """The counts, and the seconds spent in CPU operations."""
        counts: Counter[Operation] = Counter()
        seconds: dict[Operation, float] = {}
        for kind in self._kinds.values():
            if not kind.count:
                continue
            operation = kind.operation()
            counts[operation] += kind.count
            if kind.device == "cpu":
                seconds[operation] = seconds.get(operation, 0.0) + kind.seconds
        return counts, seconds

    def _run_alert(self, numerics: Numerics, func: Any, args: Any, kwargs: Any) -> Any:
        """Run `func`, and determine its line only if its result is not finite."""
        if _autograd_node() is not None:
            return func(*args, **kwargs)
        began = numerics.before(func, args, kwargs)
        result = func(*args, **kwargs)
        outputs = [result] if isinstance(result, Tensor) else tensors((result,))
        if not all(map(is_sound, outputs)):
            inputs = [*tensors(args), *tensors(kwargs.values())]
            numerics.look(self._kind(func, inputs, outputs), args, kwargs, inputs, outputs, began)
        return result

    def _is_innermost(self) -> bool:
        calls = _get_current_function_mode()  # type: ignore[no-untyped-call]
        return _get_current_dispatch_mode() is self and calls is self.calls

    def _kind(self, func: Any, inputs: list[Tensor], outputs: list[Tensor]) -> Kind:
        device = device_type(outputs[0] if outputs else inputs[0])
        node = _autograd_node()
        if node is not None and sys._getframe(2).f_code is not ENGINE:
            self._passes.record_python()
        if node is not None and not ((graph := is_grad_enabled()) and is_called_back()):
            phase, api = "backward", None
            line, library, module = self._origins.get(node._sequence_nr(), _UNKNOWN)
            if self._is_written_out(type(node)):
                line, library = self.calls.lines(sys._getframe(2))
            if graph:
                self._origins.setdefault(_sequence_number() - 1, (line, library, module))
        else:
            phase = "optimizer" if self._optimizing else "forward" if node is None else "recomputation"
            api, module = self.calls.current, self._modules.current
            line, library = self.calls.lines(sys._getframe(2))
            self._origins.setdefault(_sequence_number() - 1, (line, library, module))
        region = self.regions[device]
        took, gave = tuple(map(_dtype, inputs)), tuple(map(_dtype, outputs))
        key = (id(func), phase, api, line, library, module, took, gave, region, device)
        kind = self._kinds.get(key)
        if kind is None:
            does = may_overflow(func, took, gave), replayable(func, gave), takes_scales(func)
            kind = self._kinds[key] = Kind(phase, func, api, line, library, module, took, gave, region, device, *does)
        if node is None and self.numerics is None:
            self._passes.add(kind, inputs)
        return kind


@functools.cache
def _is_wrapper(kind: type) -> bool:
    """Whether a tensor class, not one of PyTorch's, defines the operations on it: float8 tensors of torchao."""
    return "__torch_dispatch__" in vars(kind) and kind.__module__.partition(".")[0] != "torch"


def _is_written_out(node: type) -> bool:
    """Whether an autograd node runs a user's `backward`, of a `torch.autograd.Function`."""
    function = inspect.unwrap(getattr(getattr(node, "_forward_cls", None), "backward", len))
    return hasattr(function, "__code__") and is_own(function.__code__)


def _stacks() -> tuple[int, int]:
    """The number of active modes."""
    return torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()
