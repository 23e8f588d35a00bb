"""Persistent state in half: the intended effect of its updates, and the actual one.

Averages of weights, running statistics and counters are written in place, or recomputed from their previous values.
Each is tracked through a step in float32, on at most `_SAMPLE` elements, and compared at its end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from amplint.records import dataclass
from amplint.trace.calls import tensors
from amplint.trace.frames import Line
from amplint.trace.sightings import Sightings
from amplint.trace.tally import HALF, Kind, op_name
from amplint.trace.values import in_float32, is_plain, sample, unseen

_SAMPLE = 2**14
_UNITS = 16
"""So many units of half's precision are explained by rounding."""
_TERMS = 64
"""Of fewer terms a sum loses little."""
_UNNOTICED = 0.25
"""Fewer terms than these that change nothing are rounding."""
_NOTICED = 2.0**-20
"""A smaller change, relative to the number, is float32's own rounding."""
_MOST = 4096
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv"})
_SCATTERED = frozenset({"index_add", "scatter_add"})
"""Operators that add one term after the other to a number."""
FOLLOWED = _ARITHMETIC | {"_to_copy", "copy"}
"""Operators that new state is made by, named without the mark of their in-place form."""


@dataclass(slots=True)
class _State:
    """A storage's values at its first write in a step, its values now, and those it would have in float32.

    `count` is the number of writes, and `unnoticed` the sum over writes of the share of elements that should have
    changed and did not.
    """

    storage: StorageWeakRef
    begin: Tensor
    exact: Tensor
    real: Tensor
    dtype: torch.dtype
    kind: Kind | None = None
    count: int = 0
    gradient: bool = False
    unnoticed: Tensor | float = 0.0


class States:
    """Tracks half tensors that are written outside of autograd.

    `is_gradient` says whether a storage holds a parameter's gradient: that is not state, but can vanish.
    """

    def __init__(self, sightings: Sightings, is_gradient: Callable[[int], bool]) -> None:
        self._sightings = sightings
        self._is_gradient = is_gradient
        self._written: dict[int, _State] = {}
        self._pending: list[_State | None] = []
        self._known: dict[int, StorageWeakRef] = {}
        self._made: dict[int, tuple[StorageWeakRef, Line]] = {}
        self._results: dict[int, tuple[StorageWeakRef, Line]] = {}
        self._chain: dict[int, _State] = {}
        self._lines: set[Line] = set()

    def before(self, func: Any, args: Any, kwargs: Any) -> None:
        """Prepare for `wrote`, before the in-place operation `func` runs."""
        if self._pending:
            self._pending.clear()
        first = args[0] if args else None
        if isinstance(first, Tensor) and first.dtype not in HALF:
            return
        targets = first if isinstance(first, (list, tuple)) else (first,)
        if not any(isinstance(one, Tensor) and one.dtype in HALF for one in targets) or _functional(func) is None:
            return
        if torch.is_grad_enabled() and any(one.requires_grad for one in tensors((*args, *(kwargs or {}).values()))):
            return
        with unseen():
            self._pending += [self._begin(one) for one in targets]

    def wrote(self, kind: Kind, args: Any, kwargs: Any) -> None:
        """The in-place operation ran."""
        pending, self._pending = self._pending, []
        if kind.phase in ("backward", "optimizer") or not any(pending):
            return
        targets = args[0] if isinstance(args[0], (list, tuple)) else (args[0],)
        with unseen():
            for index, (state, target) in enumerate(zip(pending, targets, strict=True)):
                if state is not None:
                    self._follow(state, kind, _of_target(args, index), kwargs or {}, target)

    def made(self, kind: Kind, args: Any, kwargs: Any, output: Tensor) -> None:
        """An operator of `FOLLOWED` returned `output`, or copied into it, outside of autograd."""
        if kind.line in self._lines:
            with unseen():
                self._link(kind, args, kwargs or {}, output)
        if output.dtype in HALF and kind.line[1] and len(self._made) < _MOST and is_plain(output):
            storage = output.untyped_storage()
            self._made[storage._cdata] = StorageWeakRef(storage), kind.line  # type: ignore[no-untyped-call]

    def end_step(self) -> None:
        """Compare the writes of this step with their intended effect."""
        for key, state in (*self._written.items(), *self._chain.items()):
            if state.kind is not None and state.exact.isfinite().all():
                known = self._known.get(key) if state.count else state.storage
                self._judge(state, persistent=known is not None and not known.expired())  # type: ignore[no-untyped-call]
        alive = [(key, one.storage) for key, one in self._written.items()]
        here = [(key, one) for key, one in (*self._known.items(), *alive) if not one.expired()]  # type: ignore[no-untyped-call]
        self._known = dict(here[-_MOST:])
        results = {**self._results, **self._made}
        self._results = {key: one for key, one in results.items() if not one[0].expired()}  # type: ignore[no-untyped-call]
        self._lines = {line for _, line in self._results.values()}
        self._written.clear()
        self._chain.clear()
        self._made.clear()

    def _begin(self, target: Tensor) -> _State | None:
        if not is_plain(target) or target.dtype not in HALF:
            return None
        storage = target.untyped_storage()
        key = storage._cdata
        state = self._written.get(key)
        if state is not None and not state.storage.expired() and state.real.shape == _numbers(target).shape:  # type: ignore[no-untyped-call]
            return state
        if len(self._written) >= _MOST:
            return None
        begin = _numbers(target).clone()
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        gradient = self._is_gradient(key)
        state = self._written[key] = _State(reference, begin, begin, begin, target.dtype, gradient=gradient)
        return state

    def _follow(self, state: _State, kind: Kind, args: Any, kwargs: Any, target: Tensor) -> None:
        exact = _result(kind.func, (state.exact, *args[1:]), kwargs, target)
        real = _numbers(target).clone()
        if exact is None or exact.shape != real.shape:
            state.exact, state.kind = real, None
            state.begin = real
        else:
            if state.gradient:
                self._record_vanished(state, kind, exact, real)
            stayed = (real == state.real) & ((exact - state.exact).abs() > _NOTICED * state.exact.abs())
            state.unnoticed = state.unnoticed + stayed.float().mean()
            state.exact, state.kind = exact, kind
            state.count += 1
        state.real = real

    def _record_vanished(self, state: _State, kind: Kind, exact: Tensor, real: Tensor) -> None:
        whole = torch.count_nonzero(state.real).double()
        lost = torch.count_nonzero((real == 0) & (exact != 0) & (state.real != 0)).double()
        self._sightings.add("vanished", kind, state.dtype, lost, whole)

    def _link(self, kind: Kind, args: Any, kwargs: Any, output: Tensor) -> None:
        """Track the result of a line that uses its own result of the previous step."""
        if kind.op == "copy_":
            source = self._state(kind, args[1])
            if source is None or source.exact is source.begin or output.dtype not in HALF:
                return
            exact, begin = source.exact, source.begin
        else:
            states = [state for state in map(functools.partial(self._state, kind), args) if state is not None]
            if not states:
                return
            given = (self._chain_value(kind, one) for one in args)
            result = _result(kind.func, tuple(given), kwargs, output)
            if result is None:
                return
            exact, begin = result, states[0].begin
        if not is_plain(output):
            return
        real = _numbers(output).clone()
        if real.shape != begin.shape or exact.shape != begin.shape:
            return
        storage = output.untyped_storage()
        ends = kind if output.dtype in HALF and kind.op.rstrip("_") not in ("mul", "div") else None
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self._chain[storage._cdata] = _State(reference, begin, exact, real, output.dtype, ends)

    def _state(self, kind: Kind, value: object) -> _State | None:
        if not isinstance(value, Tensor) or not is_plain(value):
            return None
        storage = value.untyped_storage()
        linked = self._chain.get(storage._cdata)
        if linked is not None and not linked.storage.expired():  # type: ignore[no-untyped-call]
            return linked
        result = self._results.get(storage._cdata)
        if result is None or result[1] != kind.line or result[0].expired():  # type: ignore[no-untyped-call]
            return None
        numbers = _numbers(value)
        return _State(result[0], numbers, numbers, numbers, value.dtype)

    def _chain_value(self, kind: Kind, value: Any) -> Any:
        state = self._state(kind, value)
        return state.exact if state is not None else value

    def _judge(self, state: _State, *, persistent: bool) -> None:
        kind = state.kind
        assert kind is not None
        if state.gradient:
            return
        wanted, moved = state.exact - state.begin, state.real - state.begin
        pushed = wanted.abs() > _NOTICED * state.begin.abs()
        whole = int(torch.count_nonzero(pushed))
        if not whole:
            return
        stayed = int(torch.count_nonzero(pushed & (moved == 0)))
        scattered = kind.op.rstrip("_") in _SCATTERED
        if scattered or (state.count >= _TERMS and float(state.unnoticed) > _UNNOTICED * state.count):
            gap, norm = (moved - wanted).norm().item(), wanted.norm().item()
            if gap > _UNITS * torch.finfo(state.dtype).eps * norm:
                self._sightings.add("summed", kind, state.dtype, gap, norm)
        elif persistent:
            size = float(state.begin.abs().amax())
            self._sightings.add("stuck", kind, state.dtype, stayed, whole, size=size)


def _numbers(tensor: Tensor) -> Tensor:
    """The elements of `tensor` in float32, in its shape, or a sample if there are many."""
    return (tensor.detach() if tensor.numel() <= _SAMPLE else sample(tensor, _SAMPLE)).float()


def _result(func: Any, args: Any, kwargs: Any, target: Tensor) -> Tensor | None:
    """The float32 result of `func` for `args`, in the form of `_numbers` of `target`; None if it cannot be computed."""
    run = _functional(func)
    if run is None:
        return None
    many = target.numel() > _SAMPLE
    if many and any(one.dim() and one.shape not in (target.shape, (_length(target),)) for one in tensors(args)):
        return None

    def value(one: Any) -> Any:
        if isinstance(one, Tensor) and many and one.shape == target.shape:
            return _numbers(one)
        return in_float32(one)

    try:
        result = run(*map(value, args), **{name: value(one) for name, one in kwargs.items() if name != "dtype"})
    except (RuntimeError, NotImplementedError, TypeError):
        return None
    return result.float() if isinstance(result, Tensor) else None


def _length(tensor: Tensor) -> int:
    stride = -(-tensor.numel() // _SAMPLE)
    return -(-tensor.numel() // stride)


def _of_target(args: Any, index: int) -> tuple[Any, ...]:
    """The arguments for one target of a `_foreach` operator."""
    if not isinstance(args[0], (list, tuple)):
        return tuple(args)
    return tuple(one[index] if isinstance(one, (list, tuple)) else one for one in args)


@functools.cache
def _functional(func: Any) -> Any:
    """The functional counterpart of the in-place operator `func`, for one tensor; None if it is not tracked."""
    name = op_name(func)
    plain = name.rstrip("_").removeprefix("_foreach_")
    if func.namespace != "aten":
        return None
    if plain == "_to_copy":
        return lambda value, **_: value.float()
    if plain not in _ARITHMETIC | _SCATTERED:
        return None
    packet = getattr(torch.ops.aten, plain)
    overload = func._overloadname
    if name.startswith("_foreach_"):
        overload = {"List": "Tensor", "ScalarList": "Scalar"}.get(overload, overload)
    return getattr(packet, overload, None) or packet
