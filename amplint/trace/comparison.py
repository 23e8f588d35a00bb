"""The same step in float32: every operation runs once more on what its inputs would hold there, and is compared.

Data, random numbers, masks and indices are those of the run; so are parameters and what else a step begins with.
Non-finite numbers are told at what is to blame for them: at the 1e-8 that half rounds to 0, not at the division.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from amplint.trace.calls import tensors
from amplint.trace.drift import INFINITE, Distance, distance, has_wrong_zeros, size
from amplint.trace.frames import Line
from amplint.trace.held import parameters
from amplint.trace.record import Comparison, LineDrift, TensorDrift, dtype_name
from amplint.trace.shadows import Shadow, Shadows, shares_storage
from amplint.trace.tally import HALF, Kind
from amplint.trace.values import in_float32, is_plain, unseen

_TOLERANCE = 16
"""So many units of half's precision are explained by rounding."""
_SMALL = 0.01
"""A gradient counts as at least so large, relative to all of them: what cancels out is noise in any dtype."""
_NUMBERLESS = ("empty", "new_empty", "resize", "set")
_SUMS = frozenset({"add", "sub", "sum"})
"""Operators of which little may be left. In the backward pass that is noise: a bias in front of a normalisation."""
_FAILURES = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)

Place = tuple[str, Line, str]
"""Phase, line and module."""


@dataclass(slots=True)
class _Sum:
    """What the operations of a place added; `op` added most."""

    added: float = 0.0
    error: float = 0.0
    kind: str = ""
    turn: int = 0
    op: str = ""
    dtype: str = ""
    most: float = -1.0


@dataclass(slots=True)
class _Step:
    """What one step showed."""

    places: dict[Place, _Sum] = field(default_factory=dict)
    tensors: dict[tuple[str, str], TensorDrift] = field(default_factory=dict)
    first: str = ""
    half: torch.dtype | None = None

    @property
    def forward_fails(self) -> bool:
        return any(place[0] == "forward" and found.kind for place, found in self.places.items())


class Comparer:
    """Compares what it is told of."""

    def __init__(self) -> None:
        self._shadows = Shadows()
        self._refused: set[Any] = set()
        self._before: tuple[Any, Any] | None = None
        self._involved = False
        self._step = _Step()
        self._steps: list[_Step] = []
        self._skipped: _Step | None = None

    def before(self, func: Any, args: Any, kwargs: Any) -> None:
        """To be told before `func` runs."""
        operands = [one for one in (*tensors(args), *tensors(kwargs.values())) if is_plain(one)]
        halves = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.dtype) and value in HALF]
        self._before = None
        self._involved = bool(halves) or any(one.dtype in HALF or self._shadows.find(one) for one in operands)
        if self._involved and func._schema.is_mutable:
            with unseen():
                written = [one for one in _written(func, args, kwargs) if is_plain(one)]
                kept = {id(one): one.clone() for one in written}
                for one in written:
                    self._shadows.prepare(one)
            self._before = tree_map(lambda value: kept.get(id(value), value), (args, kwargs))

    def look(self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Compare what `kind` made with what it would have made."""
        if not self._involved or kind.phase == "optimizer" or kind.op.startswith(_NUMBERLESS):
            return
        mutable = kind.func._schema.is_mutable
        made = [one for one in outputs if mutable or not shares_storage(one, inputs)]
        if not any(map(is_plain, made)):
            return
        before = self._before or (args, kwargs)
        with unseen():
            arrived = self._arrived(inputs)
            exact = self._exact(kind, args, kwargs, outputs)
            written = _written(kind.func, args, kwargs) if mutable else []
            if exact is None:
                for one in (*made, *written):
                    self._shadows.drop(one)
                return
            if mutable:
                pairs = [(one, self._shadows.exact(one)) for one in written if is_plain(one)]
            else:
                alike = zip(outputs, exact, strict=True)
                pairs = [(real, one) for real, one in alike if is_plain(real) and not shares_storage(real, inputs)]
            least = max((size(self._shadows.exact(one)) for one in inputs if is_plain(one)), default=0.0)
            for real, one in pairs:
                shadow = self._shadows.find(real) if mutable else self._kept(real, one, args)
                if shadow is not None:
                    self._judge(kind, before, inputs, real, one, shadow, arrived, least)

    def leave_module(self, path: str, output: Tensor) -> None:
        """A module has returned `output`."""
        if is_plain(output):
            self._compare("output", path, output)

    def gradients(self, optimizer: Optimizer, path: Any) -> None:
        """`optimizer` is about to use gradients, which count as right from here on, when they are unscaled and clipped."""
        found = [(name, one.grad) for name, one, _ in parameters(optimizer, path) if one.grad is not None]
        plain = [(name, grad) for name, grad in found if is_plain(grad)]
        norms = [size(self._shadows.exact(grad)) for _, grad in plain]
        numbers = sum(grad.numel() for _, grad in plain)
        usual = math.sqrt(sum(norm * norm for norm in norms if math.isfinite(norm)) / max(numbers, 1))
        for name, grad in plain:
            self._compare("gradient", name, grad, _SMALL * usual * math.sqrt(grad.numel()))
            self._shadows.drop(grad)

    def end_step(self, *, skipped: bool) -> None:
        """A step is over; `skipped` tells that a scaler kept the optimizer from it."""
        step, self._step = self._step, _Step()
        self._shadows.forget()
        if skipped and not step.forward_fails:
            self._skipped = step
        elif step.places:
            self._steps.append(step)

    def result(self) -> Comparison | None:
        """What was found, None where nothing in half ran. Steps that a scaler skipped count where there are no others."""
        steps = self._steps or [step for step in (self._skipped,) if step is not None]
        half = next((step.half for step in steps if step.half is not None), None)
        if half is None:
            return None
        tolerance = _TOLERANCE * torch.finfo(half).eps
        lines = sorted(_worst_lines(steps), key=lambda found: _rank(found, tolerance))
        found: dict[tuple[str, str], TensorDrift] = {}
        for step in steps:
            for key, drift in step.tensors.items():
                if key not in found or _size(found[key].error) < _size(drift.error):
                    found[key] = drift
        first = next((name for (what, name), drift in found.items() if what == "output" and _size(drift.error) > tolerance), "")
        worst = sorted(found.values(), key=lambda drift: -_size(drift.error))
        refused = tuple(sorted({str(func) for func in self._refused}))
        return Comparison(dtype_name(half), len(steps), tolerance, first, [one for one, _ in lines], worst, refused)

    def _arrived(self, inputs: list[Tensor]) -> float:
        return max((shadow.error for shadow in map(self._shadows.find, inputs) if shadow is not None), default=0.0)

    def _exact(self, kind: Kind, args: Any, kwargs: Any, outputs: list[Tensor]) -> list[Tensor] | None:
        """What `kind` makes in float32, in place where it works so; None where that cannot be told."""
        func = kind.func
        if kind.op == "native_dropout" and args[2]:
            return [self._shadows.exact(args[0]) * outputs[1] / (1 - args[1]), outputs[1]]
        if func in self._refused or _draws(func, args, kwargs):
            return None
        try:
            result = func(*self._moved(func, args), **{name: self._value(value) for name, value in kwargs.items()})
        except _FAILURES:
            self._refused.add(func)
            return None
        exact = [result] if isinstance(result, Tensor) else tensors((result,))
        alike = len(exact) == len(outputs) and all(
            one.shape == real.shape for one, real in zip(exact, outputs, strict=True)
        )
        return exact if alike else None

    def _value(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._shadows.exact(value) if is_plain(value) else value
        if isinstance(value, (list, tuple)):
            return type(value)(self._value(part) for part in value)
        return in_float32(value)

    def _moved(self, func: Any, args: Any) -> list[Any]:
        """`args` in float32; statistics are copies, since not every schema tells that they are written to."""
        values = [self._value(value) for value in args]
        for index, argument in enumerate(func._schema.arguments[: len(values)]):
            if argument.name.startswith("running_") and isinstance(values[index], Tensor):
                values[index] = values[index].clone()
            elif argument.name == "half_to_float":
                values[index] = False
        return values

    def _kept(self, real: Tensor, exact: Tensor, args: Any) -> Shadow | None:
        try:
            return self._shadows.keep(real, exact, own=not shares_storage(exact, tensors(self._value(list(args)))))
        except RuntimeError:  # elements of `real` lie over each other
            return None

    def _judge(
        self,
        kind: Kind,
        before: tuple[Any, Any],
        inputs: list[Tensor],
        real: Tensor,
        exact: Tensor,
        shadow: Shadow,
        arrived: float,
        least: float,
    ) -> None:
        """Work out how far `real` is off, and which place is to blame."""
        place = _place(kind)
        found = distance(real, exact)
        sums = kind.phase == "backward" and kind.op.rstrip("_") in _SUMS
        half = next((dtype for dtype in (*kind.inputs, *kind.outputs) if dtype in HALF), None)
        if half is not None and self._step.half is None:
            self._step.half = half
        worst = max((one for one in map(self._shadows.find, inputs) if one), key=lambda one: one.error, default=None)
        cancelled = max((one.cancelled for one in map(self._shadows.find, inputs) if one is not None), default=1.0)
        if sums and found.norm:
            cancelled = max(cancelled, least / found.norm)
        error = found.error(cancelled * found.norm)
        shadow.error, shadow.cancelled = error, cancelled
        shadow.zeros = has_wrong_zeros(real, exact)
        shadow.culprit = worst.culprit if worst is not None else None
        if shadow.zeros:
            shadow.culprit = self._who_made_zeros(kind, before, inputs, real, exact) or place
        elif error - arrived > _TOLERANCE * torch.finfo(half or torch.float16).eps:
            shadow.culprit = place
        if kind.phase == "recomputation" or math.isinf(arrived):
            return
        if math.isinf(error):
            blamed = self._who_made_infinite(kind, before, inputs, real, exact) or place
            self._blame(blamed, kind, found)
        else:
            self._add(place, kind, real, error - arrived, error)

    def _add(self, place: Place, kind: Kind, real: Tensor, added: float, error: float) -> None:
        total = self._step.places.setdefault(place, _Sum())
        total.added += max(added, 0.0)
        total.error = max(total.error, error)
        if added > total.most and not total.kind:
            total.most, total.op, total.dtype = added, kind.op, dtype_name(real.dtype)

    def _blame(self, place: Place, kind: Kind, found: Distance) -> None:
        total = self._step.places.setdefault(place, _Sum())
        if not total.kind:
            total.kind = "nan" if found.nan else "inf"
            total.turn = 1 + sum(bool(one.kind) for one in self._step.places.values())
            if place == _place(kind) or not total.op:
                total.op, total.dtype = kind.op, dtype_name(kind.outputs[0])

    def _again(self, kind: Kind, before: tuple[Any, Any], instead: Tensor | None = None) -> list[Tensor]:
        """`kind` once more in float32 on the run's own inputs, but for `instead`, which is what it should be."""

        def value(one: Any) -> Any:
            if isinstance(one, Tensor) and is_plain(one):
                return (self._shadows.exact(one) if one is instead else in_float32(one)).clone()
            if isinstance(one, (list, tuple)):
                return type(one)(map(value, one))
            return in_float32(one)

        args, kwargs = before
        try:
            result = kind.func(*map(value, args), **{name: value(one) for name, one in kwargs.items()})
        except _FAILURES:
            return []
        return [result] if isinstance(result, Tensor) else tensors((result,))

    def _who_made_zeros(
        self, kind: Kind, before: tuple[Any, Any], inputs: list[Tensor], real: Tensor, exact: Tensor
    ) -> Any:
        """Where zeros of inputs come from that are those of `real`; None where they are the operation's own."""
        wrong = [one for one in map(self._shadows.find, inputs) if one is not None and one.zeros]
        if not wrong:
            return None
        for one in self._again(kind, before):
            if one.shape == real.shape and bool(((real == 0) & (exact != 0) & (one != 0)).any()):
                return None
        return wrong[0].culprit

    def _who_made_infinite(
        self, kind: Kind, before: tuple[Any, Any], inputs: list[Tensor], real: Tensor, exact: Tensor
    ) -> Any:
        """The culprit of the input without whose error `real` would be finite; None where none is, or `kind` itself."""
        bad = exact.isfinite() & ~real.isfinite()

        def cured(results: list[Tensor]) -> bool:
            alike = [one for one in results if one.shape == real.shape]
            return bool(alike) and not any(bool((bad & ~one.isfinite()).any()) for one in alike)

        if cured(self._again(kind, before)):
            return None
        for one in inputs:
            shadow = self._shadows.find(one)
            if shadow is not None and shadow.culprit is not None and cured(self._again(kind, before, one)):
                return shadow.culprit
        return None

    def _compare(self, what: str, name: str, tensor: Tensor, least: float = 0.0) -> None:
        found, shadow = distance(tensor, self._shadows.exact(tensor)), self._shadows.find(tensor)
        error = found.error(max(least, shadow.cancelled * found.norm if shadow is not None else 0.0))
        drift = TensorDrift(what, name, dtype_name(tensor.dtype), error if math.isfinite(error) else None)
        known = self._step.tensors.get((what, name))
        if known is None or _size(known.error) < error:
            self._step.tensors[what, name] = drift


def _place(kind: Kind) -> Place:
    return ("backward" if kind.phase == "backward" else "forward", kind.line, kind.module)


def _size(error: float | None) -> float:
    return INFINITE if error is None else error


def _written(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """The tensors that `func` writes to."""
    found: list[Tensor] = []
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            found += tensors((value,))
    return found


def _draws(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether `func` draws random numbers; dropout of nothing does not."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    for index, argument in enumerate(func._schema.arguments):
        if argument.name in ("dropout_p", "p", "dropout"):
            value = args[index] if index < len(args) else kwargs.get(argument.name, argument.default_value)
            return bool(value)
    return True


def _worst_lines(steps: list[_Step]) -> Iterator[tuple[LineDrift, int]]:
    """One entry for each phase of each line, that of the worst module and step, and when it was blamed."""
    best: dict[tuple[str, Line], tuple[Place, _Sum]] = {}
    for step in steps:
        for place, found in step.places.items():
            key = place[:2]
            known = best.get(key)
            if known is None or (bool(known[1].kind), known[1].added) < (bool(found.kind), found.added):
                best[key] = place, found
    for (phase, line, module), found in best.values():
        if line[1]:
            numbers = (None, None) if found.kind else (min(found.added, found.error), found.error)
            yield LineDrift(phase, found.op, *line, module, found.dtype, found.kind, *numbers), found.turn


def _rank(found: tuple[LineDrift, int], tolerance: float) -> tuple[int, float]:
    """Lowest for what is to be looked at first.

    What is not finite comes first, in the order of the run, then what parts in the forward pass: gradients that part
    may do so for it.
    """
    drift, turn = found
    if drift.kind:
        return (0 if drift.phase == "forward" else 1), turn
    added = drift.added or 0.0
    return (2 if drift.phase == "forward" and added > tolerance else 3), -added
