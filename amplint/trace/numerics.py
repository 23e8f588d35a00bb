"""All numerical checks, enabled and notified together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.optim import Optimizer

from amplint.trace.comparison import Comparer
from amplint.trace.curves import Curves
from amplint.trace.data import NUMERICS, RunData
from amplint.trace.exponents import Exponents
from amplint.trace.float8 import Float8Operands
from amplint.trace.frames import Line
from amplint.trace.held import parameters
from amplint.trace.nonfinite import Origins
from amplint.trace.replays import Replays
from amplint.trace.spoilt import Spoilt
from amplint.trace.tally import Kind, makes_numbers, rewrites
from amplint.trace.updates import Updates
from amplint.trace.values import unseen
from amplint.trace.watchers import Watchers

_EVERY = 8
SAMPLE, _FULL = 256, 4096
_CALLS = 64


class Numerics:
    """Runs the numerical checks while `on`, at one of the levels of `NUMERICS`.

    Every result is checked for inf and NaN. Float16 results are compared with float32, all of them at `full` and one
    of eight at `sample`; the level also sets the sample size for activations, weights, gradients and updates.

    `scale` is the loss scale that gradients carry, None without a scaler; `scaling` says that one multiplies a loss.
    While `alert`, and not `on`, only origins of inf and NaN are looked for: in the forward pass on the CPU, and among
    gradients that an optimizer is about to use.

    None of this affects what the run computes, draws random numbers or is recorded. With `compare` everything is
    computed in float32 as well. `curves`, if set, take the magnitudes of tensors in each step; `trained` returns
    the parameters of modules that ran, and of optimizers. Raises ValueError for an unknown level.
    """

    def __init__(
        self,
        level: str,
        path: Callable[[Tensor], str],
        trained: Callable[[], Iterable[Tensor]] = tuple,
        *,
        compare: bool = False,
    ) -> None:
        if level not in NUMERICS:
            raise ValueError(f"numerics is one of {', '.join(NUMERICS)}")
        self._full = level == "full"
        self.on = self.alert = False
        self.enabled = level != "off"
        self.step = 0
        self.scale: float | None = None
        self.scaling = False
        self.curves: Curves | None = None
        self._path = path
        self._trained = trained
        self._compare = compare
        self._rewrites: dict[int, tuple[bool, Any]] = {}
        self._makes_numbers: dict[int, tuple[bool, Any]] = {}
        self._last: Tensor | None = None
        self._origins = Origins(lambda: (self.step, self.scale, self.scaling))
        self._spoilt = Spoilt()
        self.forget()

    def forget(self) -> None:
        """Reset everything that belongs to the record, except the origins of inf and NaN."""
        size = _FULL if self._full else SAMPLE
        self._replays = self._origins.replays = Replays(1 if self._full else _EVERY)
        self._exponents = Exponents(size, _CALLS if self._full else 1)
        self._updates = Updates(size, self._path)
        self._float8 = Float8Operands()
        self._comparer = Comparer() if self._compare else None
        self._watchers = Watchers(self._trained)

    def before(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Prepare for `look` before `func` runs; return whether the target of an in-place operation is finite."""
        if self.on and self._comparer is not None:
            self._comparer.before(func, args, kwargs or {})
        known = self._rewrites.get(id(func))  # hashing it costs as much as all of this
        if known is None:
            known = self._rewrites[id(func)] = rewrites(func), func
        if known[0] and self.on:
            self._watchers.states.before(func, args, kwargs)
        return not known[0] or self._origins.begins_finite(args)

    def makes_numbers(self, func: Any) -> bool:
        """Whether `func` may make inf or NaN, in any dtype."""
        known = self._makes_numbers.get(id(func))
        if known is None:
            makes = not isinstance(func, HigherOrderOperator) and makes_numbers(func)
            known = self._makes_numbers[id(func)] = makes, func
        return known[0]

    def look(
        self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor], began: bool
    ) -> None:
        """Check the results of an operation."""
        self._origins.look(kind, args, kwargs, inputs, outputs, began)
        if not self.on:
            return
        watchers = kind.watchers
        if watchers is None:
            watchers = kind.watchers = self._watchers.of(kind)
        for watcher in watchers:
            watcher(kind, args, kwargs, inputs, outputs)
        if kind.replayable and kind.computes:
            self._replays.look(kind, args, kwargs, outputs, self.scale or 1.0)
        if kind.scaled:
            self._float8.look(kind, args, kwargs)
        if self._comparer is not None:
            self._comparer.look(kind, args, kwargs or {}, inputs, outputs)

    def leave_module(self, path: str, output: object, *, outermost: bool) -> None:
        """A module returned `output`, whose first tensor is checked; the `outermost` is a whole model."""
        if not (self.on or (self.alert and outermost)) or torch._C._is_tracing():
            return
        with unseen():
            for tensor in _first_tensor(output):
                if outermost:
                    self._origins.leave_model(tensor)
                if not self.on:
                    continue
                if tensor is not self._last:  # a container returns the output of its last part
                    self._exponents.take("activation", path, tensor)
                    if self.curves is not None:
                        self.curves.take("activation", path, tensor)
                if self._comparer is not None:
                    self._comparer.leave_module(path, tensor)
                self._last = None if outermost else tensor

    def gradients(self, optimizer: Optimizer, scale: float) -> None:
        """`optimizer` is about to use gradients, which carry `scale`."""
        if not self.on:
            return
        with unseen():
            for name, parameter, _ in parameters(optimizer, self._path):
                if parameter.grad is not None:
                    self._exponents.take("weight", name, parameter)
                    self._exponents.take("gradient", name, parameter.grad, scale)
                    if self.curves is not None:
                        self.curves.take("gradient", name, parameter.grad)
            if self._comparer is not None:
                self._comparer.gradients(optimizer, self._path)

    def computed(self, losses: object, results: object) -> None:
        """A backward pass from `losses` ended, or returned `results`."""
        if self.on:
            with unseen():
                if results is None:
                    self._watchers.gradients.backward_ended()
                else:
                    self._watchers.gradients.computed(losses, results)

    def scaled(self, losses: object, scale: float) -> None:
        """A scaler returned `losses`, which carry `scale`."""
        if self.on:
            self._watchers.gradients.scaled(losses, scale)

    def unscaled(self, optimizer: Optimizer) -> None:
        """A scaler unscaled the gradients of `optimizer`."""
        with unseen():
            self._watchers.gradients.unscaled(optimizer)

    def step_without_scaler(self, optimizer: Optimizer) -> None:
        """`optimizer` is about to step, not called by a scaler."""
        if self.on:
            with unseen():
                self._watchers.gradients.step(optimizer)

    def begin(self, optimizer: Optimizer) -> None:
        """`optimizer` is about to step."""
        if self.on:
            with unseen():
                self._updates.begin(optimizer)
        elif self.alert:
            with unseen():
                if self._spoilt.look(optimizer, self.step):
                    self._origins.confirm()

    def end(self, optimizer: Optimizer) -> None:
        """`optimizer` stepped."""
        if self.on:
            with unseen():
                self._updates.end(optimizer)

    def end_step(self, lines: Mapping[Optimizer, Line], skipped: Collection[str]) -> None:
        """A step ended; scalers skipped the kinds of optimizers in `skipped`."""
        if self.on:
            with unseen():
                self._origins.end_step()
                self._replays.end_step()
                self._exponents.end_step()
                self._float8.end_step(self.step)
                self._updates.end_step(self.step, lines, skipped)
            self._watchers.end_step()
            if self._comparer is not None:
                self._comparer.end_step(skipped=bool(skipped))
        elif self.alert:
            self._origins.end_step()

    def abort_step(self) -> None:
        """The script failed in the middle of a step."""
        if self.on:
            with unseen():
                self._origins.abort_step()

    def write(self, record: RunData) -> None:
        """Write the results into `record`."""
        record.nonfinite = list(self._origins.found.values())
        for spoilt in self._spoilt.found():
            if all(origin.step > spoilt.step for origin in record.nonfinite):
                record.nonfinite.insert(0, spoilt)
        record.losses = list(self._replays.losses())
        record.histograms = list(self._exponents.histograms())
        record.updates = self._updates.updates()
        record.float8 = list(self._float8.operands())
        record.observations = self._watchers.observations()
        record.comparison = self._comparer.result() if self._comparer is not None else None


def _first_tensor(output: object) -> list[Tensor]:
    """The first tensor of a module's output, nested in sequences or mappings, unless a transform wraps it."""
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, (list, tuple)):
        return next((found for found in map(_first_tensor, output) if found), [])
    if isinstance(output, Tensor) and not torch._C._functorch.is_functorch_wrapped_tensor(output):
        return [output]
    return []
