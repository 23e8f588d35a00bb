"""The same step in float32: every operation runs once more on what its inputs would hold there, and is compared.

Data, random numbers, masks and indices are those of the run; so are parameters and what else a step begins with.
An inf or NaN is told at what is to blame for it: at the 1e-8 that half rounds to 0, not at the division.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from amplint.trace.attention import HALF_ONLY, attention
from amplint.trace.blame import FAILURES, Blame
from amplint.trace.calls import tensors
from amplint.trace.compared import Comparison
from amplint.trace.drift import Distance, distance, size
from amplint.trace.frames import is_in_optimizer
from amplint.trace.held import parameters
from amplint.trace.partings import Culprit, Partings, parts
from amplint.trace.shadows import Shadow, Shadows, shares_storage
from amplint.trace.tally import HALF, Kind, draws, op_name
from amplint.trace.values import in_float32, is_plain, unseen

_SMALL = 0.01
"""A gradient counts as at least so large, relative to all of them: what cancels out is noise in any dtype."""
_LEFT = 0.1
"""Where less is left of the numbers in a sum, they cancelled out."""
_NUMBERLESS = ("empty", "new_empty", "resize", "set")
_SUMS = frozenset({"add", "sub", "sum"})
"""Operators of which little may be left. In the backward pass that is noise: a bias in front of a normalisation."""
_RIGHT = Shadow(None, torch.float32, torch.empty(0))
"""What holds for inputs without shadows."""


class Comparer:
    """Compares what it is told of."""

    def __init__(self) -> None:
        self._shadows = Shadows()
        self._partings = Partings()
        self._refused: set[Any] = set()
        self._before: tuple[Any, Any] | None = None
        self._involved = False

    def before(self, func: Any, args: Any, kwargs: Any) -> None:
        """To be told before `func` runs, for `look`."""
        operands = [one for one in (*tensors(args), *tensors(kwargs.values())) if is_plain(one)]
        makes_half = any(value in HALF for value in (*args, *kwargs.values()) if isinstance(value, torch.dtype))
        self._before = None
        self._involved = False
        if torch.Tag.inplace_view in func.tags:  # `transpose_`: the numbers stay where they are
            return
        self._involved = makes_half or any(one.dtype in HALF or self._shadows.find(one) for one in operands)
        if self._involved and func._schema.is_mutable:
            with unseen():
                written = _written(func, args, kwargs)
                kept = {id(one): one.clone() for one in written}
                for one in written:
                    self._shadows.prepare(one)
            self._before = tree_map(lambda value: kept.get(id(value), value), (args, kwargs))

    def look(self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Compare what `kind` made of `inputs` with what it would have made."""
        if not self._involved or kind.phase == "optimizer" or kind.op.startswith(_NUMBERLESS):
            return
        written = _written(kind.func, args, kwargs)
        if not written and not any(is_plain(one) and not shares_storage(one, inputs) for one in outputs):
            return
        before = self._before or (args, kwargs)
        with unseen():
            blame = Blame(self._shadows, kind.func, *before, inputs)
            known = [shadow for shadow in map(self._shadows.find, inputs) if shadow is not None]
            for index, real, exact, shadow in self._results(kind, args, kwargs, inputs, outputs, written):
                self._judge(kind, blame, known, index, real, exact, shadow)

    def leave_module(self, path: str, output: Tensor) -> None:
        """A module has returned `output`."""
        if is_plain(output):
            self._compare("output", path, output)

    def gradients(self, optimizer: Optimizer, path: Callable[[Tensor], str]) -> None:
        """`optimizer` is about to use gradients, which count as right from here on: they may be unscaled unseen."""
        found = [(name, one.grad) for name, one, _ in parameters(optimizer, path) if one.grad is not None]
        plain = [(name, gradient) for name, gradient in found if is_plain(gradient)]
        norms = [size(self._shadows.exact(gradient)) for _, gradient in plain]
        numbers = sum(gradient.numel() for _, gradient in plain)
        usual = math.sqrt(sum(norm * norm for norm in norms if math.isfinite(norm)) / max(numbers, 1))
        for name, gradient in plain:
            self._compare("gradient", name, gradient, _SMALL * usual * math.sqrt(gradient.numel()))
            self._shadows.drop(gradient)

    def end_step(self, *, skipped: bool) -> None:
        """A step is over; `skipped` tells that a scaler kept the optimizer from it."""
        self._shadows.forget()
        self._partings.end_step(skipped=skipped)

    def result(self) -> Comparison | None:
        """What was found, None where nothing ran in half."""
        return self._partings.result(map(op_name, self._refused))

    def _results(
        self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor], written: list[Tensor]
    ) -> Iterator[tuple[int, Tensor, Tensor, Shadow]]:
        """Each result of `kind`, and what it would hold in float32, which is its shadow now; none where unknown."""
        exact = self._exact(kind, args, kwargs, outputs)
        for index, one in enumerate(written):
            shadow = self._shadows.find(one)
            if exact is None:
                self._shadows.drop(one)
            elif shadow is not None:
                yield index, one, self._shadows.exact(one), shadow
        for index, (real, one) in enumerate(zip(outputs, exact or [], strict=False)):
            if one is not real and is_plain(real) and not shares_storage(real, inputs):
                shadow = self._shadows.keep(real, one)
                if shadow is not None:
                    yield index, real, one, shadow

    def _exact(self, kind: Kind, args: Any, kwargs: Any, outputs: list[Tensor]) -> list[Tensor] | None:
        """What `kind` makes in float32, in place where it works so; None where that cannot be told."""
        func = kind.func
        if kind.op == "native_dropout" and args[2]:
            return [self._shadows.exact(args[0]) * outputs[1] / (1 - args[1]), outputs[1]]
        if func in self._refused or draws(func, args, kwargs):
            return None
        values = [self._value(value) for value in args]
        if kind.op in HALF_ONLY:
            names = [argument.name for argument in func._schema.arguments]
            defaults = {argument.name: argument.default_value for argument in func._schema.arguments}
            known = attention(defaults | dict(zip(names, values, strict=False)) | kwargs)
            return [*known, *outputs[len(known) :]] if known is not None else None
        for index, argument in enumerate(func._schema.arguments[: len(values)]):
            if _is_statistic(argument) and isinstance(values[index], Tensor):
                values[index] = values[index].clone()
            elif argument.name == "half_to_float":
                values[index] = False
        named = {name: self._value(value) for name, value in kwargs.items()}
        try:
            result = func(*values, **named)
        except FAILURES:
            self._refused.add(func)
            return None
        exact = [result] if isinstance(result, Tensor) else tensors((result,))
        if [one.shape for one in exact] != [one.shape for one in outputs]:
            return None
        given = tensors((*values, *named.values()))
        return [one.clone() if is_plain(one) and shares_storage(one, given) else one for one in exact]

    def _value(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._shadows.exact(value) if is_plain(value) else value
        if isinstance(value, (list, tuple)):
            return type(value)(self._value(part) for part in value)
        return in_float32(value)

    def _judge(
        self,
        kind: Kind,
        blame: Blame,
        known: list[Shadow],
        index: int,
        real: Tensor,
        exact: Tensor,
        shadow: Shadow,
    ) -> None:
        """Work out how far `real`, the result of that `index`, is off, and what is to blame."""
        found, own = distance(real, exact), _culprit(kind, real)
        worst = max(known, key=lambda one: one.error, default=_RIGHT)
        arrived = worst.error
        cancelled = max((one.cancelled for one in known), default=1.0)
        if kind.phase == "backward" and found.norm:
            cancelled = max(cancelled, self._before_summing(kind, blame.inputs, real) / found.norm)
        error = found.error(cancelled * found.norm)
        half = next((dtype for dtype in (*kind.inputs, *kind.outputs) if dtype in HALF), None)
        if half is not None:
            self._partings.ran_in(half)
        off = parts(error - arrived, half or torch.float16)
        if off and is_in_optimizer():
            return
        own = _culprit(kind, real)
        is_cured = _cure(real, exact, found.gap, off=off) if not math.isinf(arrived) else None
        blamed = None
        if is_cured is not None and (kind.phase != "backward" or math.isinf(error) or not off):
            blamed = blame.whose(is_cured, index, for_zeros=not off or math.isinf(error)) or own
        if kind.phase != "recomputation" and not math.isinf(arrived):
            self._tell(blamed if blamed is not None and off else own, found, error - arrived, error)
        brought = distance(blame.alone[index], exact).gap if index < len(blame.alone) else found.gap
        shadow.source, shadow.part = (own, error) if brought <= found.gap / 2 else (worst.source, worst.part)
        shadow.culprit = (blamed if off else None) or worst.culprit
        shadow.zeroed = blamed if not off or math.isinf(error) else None
        shadow.error, shadow.cancelled = error, cancelled

    def _before_summing(self, kind: Kind, inputs: list[Tensor], real: Tensor) -> float:
        """How large the numbers are that `real` is a sum of, 0 where it is none; gradients of biases are sums, too."""
        if kind.op.rstrip("_") in _SUMS:
            return max((size(self._shadows.exact(one)) for one in inputs if is_plain(one)), default=0.0)
        is_bias = real.dim() == 1 and kind.op.endswith("_backward")
        return size(self._shadows.exact(inputs[0])) if is_bias and is_plain(inputs[0]) else 0.0

    def _tell(self, culprit: Culprit, found: Distance, added: float, error: float) -> None:
        if math.isinf(error):
            self._partings.blame(culprit, "nan" if found.nan else "inf")
        else:
            self._partings.add(culprit, added, error)

    def _compare(self, what: str, name: str, tensor: Tensor, least: float = 0.0) -> None:
        found, shadow = distance(tensor, self._shadows.exact(tensor)), self._shadows.find(tensor)
        cancelled = _LEFT * shadow.cancelled if shadow is not None else 0.0
        self._partings.tensor(what, name, tensor.dtype, found.error(max(least, cancelled * found.norm)))


def _cure(real: Tensor, exact: Tensor, gap: float, *, off: bool) -> Callable[[Tensor], bool] | None:
    """What tells whether another result is free of what is wrong about `real`; None where nothing is.

    `gap` is that of `real`, and `off` says that rounding does not explain it.
    """
    if math.isinf(gap):
        bad = exact.isfinite() & ~real.isfinite()
        return lambda one: not bool((bad & ~one.isfinite()).any())
    if off:
        return lambda one: distance(one, exact).gap <= gap / 2
    zeros = (real == 0) & (exact != 0)
    return (lambda one: bool((zeros & (one != 0)).any())) if bool(zeros.any()) else None


def _culprit(kind: Kind, real: Tensor) -> Culprit:
    phase = "backward" if kind.phase == "backward" else "forward"
    return Culprit((phase, kind.line, kind.module), kind.op, real.dtype)


def _is_statistic(argument: Any) -> bool:
    """Whether it is what a batch norm writes to, without every schema saying so; what it becomes is not compared."""
    return bool(argument.name.startswith("running_"))


def _written(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """The tensors that `func` writes to, as far as they are compared."""
    if not func._schema.is_mutable:
        return []
    found: list[Tensor] = []
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write and not _is_statistic(argument):
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            found += [one for one in tensors((value,)) if is_plain(one)]
    return found
