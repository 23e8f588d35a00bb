"""The same step in float32: every operation also runs on the float32 values of its inputs, and is compared.

Data, random numbers, masks and indices are the run's; so are parameters and other state at the start of a step.
An error is reported at its culprit: at the 1e-8 that half rounds to 0, not at the division.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from amplint.torchlib.catalogue import operations_with
from amplint.trace.blame import Blame, Ran
from amplint.trace.calls import tensors
from amplint.trace.compared import Comparison
from amplint.trace.drift import distance, size
from amplint.trace.exact import Exact, written
from amplint.trace.frames import is_in_optimizer
from amplint.trace.held import parameters
from amplint.trace.kinds import is_coarse
from amplint.trace.partings import Culprit, Partings, parts
from amplint.trace.shadows import Shadow, Shadows, shares_storage
from amplint.trace.tally import HALF, Kind
from amplint.trace.values import is_plain, unseen

_SMALL = 0.01
"""A gradient counts as at least so large, relative to all of them: what cancels out is noise in any dtype."""
_LEFT = 0.1
"""Where less is left of the numbers in a sum, they cancelled out."""
_NUMBERLESS = operations_with("blank") | {"set"}
_SUMS = frozenset({"add", "sub", "sum"})
"""Operators of which little may be left. In the backward pass that is noise: a bias in front of a normalisation."""


class Comparer:
    """Compares each operation's results with float32."""

    def __init__(self) -> None:
        self._shadows = Shadows()
        self._exact = Exact(self._shadows)
        self._blame = Blame(self._shadows)
        self._partings = Partings()
        self._coarse: dict[Any, bool] = {}
        self._before: tuple[Any, Any] | None = None
        self._involved = False

    def before(self, func: Any, args: Any, kwargs: Any) -> None:
        """Prepare for `look`, before `func` runs."""
        operands = [one for one in (*tensors(args), *tensors(kwargs.values())) if is_plain(one)]
        makes_half = any(value in HALF for value in (*args, *kwargs.values()) if isinstance(value, torch.dtype))
        self._before = None
        self._involved = False
        if torch.Tag.inplace_view in func.tags:  # `transpose_`: the storage is unchanged
            return
        self._involved = makes_half or any(one.dtype in HALF or self._shadows.find(one) for one in operands)
        if self._involved and func._schema.is_mutable:
            with unseen():
                targets = written(func, args, kwargs)
                kept = {id(one): one.clone() for one in targets}
                for one in targets:
                    self._shadows.prepare(one)
            self._before = tree_map(lambda value: kept.get(id(value), value), (args, kwargs))

    def look(self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Compare the results of `kind` with float32."""
        if not self._involved or kind.phase == "optimizer" or kind.op.rstrip("_") in _NUMBERLESS:
            return
        targets = written(kind.func, args, kwargs)
        if not targets and not any(is_plain(one) and not shares_storage(one, inputs) for one in outputs):
            return
        with unseen():
            known = [shadow for shadow in map(self._shadows.find, inputs) if shadow is not None]
            for index, real, exact, shadow in self._results(kind, args, kwargs, inputs, outputs, targets):
                ran = Ran(kind.func, *(self._before or (args, kwargs)), self._place(kind, real))
                self._judge(kind, ran, known, index, real, exact, shadow)
                self._blame.remember(ran, index, real, shadow)

    def leave_module(self, path: str, output: Tensor) -> None:
        """A module returned `output`."""
        if is_plain(output):
            self._compare("output", path, output)

    def gradients(self, optimizer: Optimizer, path: Callable[[Tensor], str]) -> None:
        """`optimizer` is about to use gradients, which count as right from here on: they may be unscaled unnoticed."""
        found = [(name, one.grad) for name, one, _ in parameters(optimizer, path) if one.grad is not None]
        plain = [(name, gradient) for name, gradient in found if is_plain(gradient)]
        norms = [size(self._shadows.exact(gradient)) for _, gradient in plain]
        numbers = sum(gradient.numel() for _, gradient in plain)
        usual = math.sqrt(sum(norm * norm for norm in norms if math.isfinite(norm)) / max(numbers, 1))
        for name, gradient in plain:
            self._compare("gradient", name, gradient, _SMALL * usual * math.sqrt(gradient.numel()))
            self._shadows.drop(gradient)

    def end_step(self, *, skipped: bool) -> None:
        """The step ended; `skipped` if a scaler skipped the optimizer."""
        self._shadows.forget()
        self._blame.forget()
        self._partings.end_step(skipped=skipped)

    def result(self) -> Comparison | None:
        """The comparison, None if nothing ran in half."""
        return self._partings.result(self._exact.refused)

    def _results(
        self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor], targets: list[Tensor]
    ) -> Iterator[tuple[int, Tensor, Tensor, Shadow]]:
        """Index, real result, float32 result and shadow of each result of `kind`; none if unknown."""
        exact = self._exact.results(kind, args, kwargs, outputs)
        for one in targets:
            shadow = self._shadows.find(one)
            if exact is None:
                self._shadows.drop(one)
            elif shadow is not None:
                yield 0, one, self._shadows.exact(one), shadow
        for index, (real, one) in enumerate(zip(outputs, exact or [], strict=False)):
            if one is not real and is_plain(real) and not shares_storage(real, inputs):
                shadow = self._shadows.keep(real, one)
                if shadow is not None:
                    yield index, real, one, shadow

    def _judge(
        self, kind: Kind, ran: Ran, known: list[Shadow], index: int, real: Tensor, exact: Tensor, shadow: Shadow
    ) -> None:
        """Compute the error of `real`, the result number `index`, and its culprit."""
        half = next((dtype for dtype in (*kind.inputs, *kind.outputs) if dtype in HALF), None)
        if half is not None:
            self._partings.ran_in(half)
        found = distance(real, exact)
        arrived = max((one.error for one in known), default=0.0)
        cancelled = max((one.cancelled for one in known), default=1.0)
        norm = max(cancelled * found.norm, self._summed(kind, ran, real))
        shadow.cancelled = norm / found.norm if kind.phase == "backward" and found.norm else cancelled
        shadow.error = error = found.error(norm)
        infinite, off = math.isinf(error), parts(error - arrived, half or torch.float16)
        if math.isinf(arrived) or (error > arrived and is_in_optimizer()):
            return
        if off and not infinite and _matters_only_if_used(kind, index):
            shadow.error = arrived
            return
        culprit = ran.own
        if infinite:
            culprit = self._blame.for_infinity(ran, index, real, exact)
        elif off and kind.phase != "backward":
            culprit = self._blame.for_error(ran, index, real, exact)
        shadow.culprit = culprit if infinite or off else next((one.culprit for one in known if one.culprit), None)
        shadow.zeroed = self._blame.for_zeros(ran, index, real, exact) if kind.phase != "backward" else None
        if kind.phase == "recomputation":
            return
        if infinite:
            self._partings.blame(culprit, "nan" if found.nan else "inf")
        else:
            self._partings.add(culprit, error - arrived, error)

    def _summed(self, kind: Kind, ran: Ran, real: Tensor) -> float:
        """The norm of a sum of terms with random signs, 0 if `real` is no sum: a smaller norm is due to cancellation.

        Gradients of biases are sums, too.
        """
        inputs = ran.inputs()
        if not inputs:
            return 0.0
        if kind.phase != "backward":
            share = {"sum": 1.0, "mean": real.numel() / inputs[0].numel()}.get(kind.op, 0.0)
            return share and share * size(self._shadows.exact(inputs[0]))
        if kind.op.rstrip("_") in _SUMS:
            return max(map(size, map(self._shadows.exact, inputs)))
        is_bias = real.dim() == 1 and kind.op.endswith("_backward")
        return size(self._shadows.exact(inputs[0])) if is_bias else 0.0

    def _place(self, kind: Kind, real: Tensor) -> Culprit:
        phase = "backward" if kind.phase == "backward" else "forward"
        coarse = real.dtype in HALF and kind.phase == "forward" and self._is_coarse(kind)
        return Culprit((phase, kind.line, kind.library, kind.module), kind.op, real.dtype, coarse)

    def _is_coarse(self, kind: Kind) -> bool:
        key = kind.func, kind.api, kind.inputs, kind.outputs
        if key not in self._coarse:
            self._coarse[key] = is_coarse(kind.operation(), kind.device)
        return self._coarse[key]

    def _compare(self, what: str, name: str, tensor: Tensor, least: float = 0.0) -> None:
        found, shadow = distance(tensor, self._shadows.exact(tensor)), self._shadows.find(tensor)
        cancelled = _LEFT * shadow.cancelled if shadow is not None else 0.0
        self._partings.tensor(what, name, tensor.dtype, found.error(max(least, cancelled * found.norm)))


def _matters_only_if_used(kind: Kind, index: int) -> bool:
    """Whether an error of a result matters only once the result is used.

    This holds for a cast, for what a norm saves for its derivative, and for a difference in float32: near 0 its
    relative error is arbitrary, and its exponential has none.
    """
    difference = kind.op.rstrip("_") == "sub" and HALF.isdisjoint(kind.outputs)
    return kind.op == "_to_copy" or difference or (index > 0 and kind.op.endswith("_norm"))
