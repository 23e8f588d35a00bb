"""Optimizer steps and their treatment by gradient scalers."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import takewhile
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from amplint.trace.curves import Curves
from amplint.trace.data import SERIES_POINTS, ScalerStep
from amplint.trace.frames import Line, calling_line
from amplint.trace.numerics import Numerics
from amplint.trace.window import Window

Listener = Callable[[int], None]
Paused = Callable[[], AbstractContextManager[None]]


class Steps:
    """Counts steps, including those a scaler skips, and records the scalers' history.

    `optimizers` maps those that stepped to the line. `number` is the number of completed steps, of the optimizer with
    most steps if there are several.

    `on_step` is called with it at the end of a step: after the scaler's `update()` if there is one. `on_optimizing`
    is called when an optimizer or a scaler begins and ends its work, `on_stepped` with the optimizer that stepped.
    The history is read while `paused`, so that it is not recorded as the run's own work. `numerics` is notified of
    losses, gradients and weights, `curves` of losses and scales.
    """

    def __init__(
        self,
        on_step: Listener,
        on_optimizing: Callable[[bool], None],
        paused: Paused,
        on_stepped: Callable[[Optimizer], None],
        numerics: Numerics,
        curves: Curves,
        window: Window,
    ) -> None:
        self._history: list[ScalerStep] = []
        self.optimizers: dict[Optimizer, Line] = {}
        self._counts: Counter[Optimizer] = Counter()
        self._on_step = on_step
        self._on_optimizing = on_optimizing
        self._on_stepped = on_stepped
        self._paused = paused
        self._numerics = numerics
        self._curves = curves
        self._window = window
        self._stride = 1
        self._announced = 0
        self._scaler: torch.amp.GradScaler | None = None
        self._open: dict[int, list[int]] = {}
        self._scales: dict[int, float] = {}
        self._undo: list[Callable[[], None]] = []

    @property
    def number(self) -> int:
        """The number of completed steps."""
        return max(self._counts.values(), default=0)

    def history(self) -> list[ScalerStep]:
        """The scalers' history in recorded steps; beyond `SERIES_POINTS` every other step is dropped."""
        recorded = [entry for entry in self._history if self._window.holds(entry.step)]
        while len(kept := [entry for entry in recorded if self._is_kept(entry)]) > SERIES_POINTS:
            self._stride *= 2
        return kept

    def attach(self) -> None:
        """Install the hooks."""
        before = register_optimizer_step_pre_hook(self._begin)
        after = register_optimizer_step_post_hook(self._stepped)
        self._undo = [before.remove, after.remove]
        original = Optimizer.zero_grad
        Optimizer.zero_grad = _wrapped(original, self._clear)  # type: ignore[method-assign]
        self._undo.append(functools.partial(setattr, Optimizer, "zero_grad", original))
        for kind in _with_subclasses(torch.amp.GradScaler):
            self._follow(kind)
        torch.amp.GradScaler.__init_subclass__ = classmethod(self._follow)  # type: ignore[assignment]
        self._undo.append(functools.partial(delattr, torch.amp.GradScaler, "__init_subclass__"))

    def detach(self) -> None:
        """Remove the hooks and restore PyTorch."""
        while self._undo:
            self._undo.pop()()

    def _follow(self, kind: type[torch.amp.GradScaler]) -> None:
        """Wrap the methods that a scaler class defines."""
        wrappers = {"scale": self._scale, "unscale_": self._unscale, "step": self._step, "update": self._update}
        for name, wrapper in wrappers.items():
            original = vars(kind).get(name)
            if original is not None:
                setattr(kind, name, _wrapped(original, wrapper))
                self._undo.append(functools.partial(setattr, kind, name, original))

    def _begin(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        has_closure = any(argument is not None for argument in (*args[1:], *kwargs.values()))
        if not has_closure:  # which would run a forward and a backward pass
            self._on_optimizing(True)
        if self._scaler is None:
            self._numerics.gradients(optimizer, 1.0)
            self._numerics.step_without_scaler(optimizer)
        self._numerics.begin(optimizer)

    def _stepped(self, optimizer: Optimizer, *_: object) -> None:
        self._numerics.end(optimizer)
        self._on_optimizing(self._scaler is not None)
        if self._scaler is None:
            self._counted(optimizer)
            self._announce()

    def skipped(self, step: int) -> set[str]:
        """The kinds of optimizers for which a scaler skipped `step`."""
        last = reversed(self._history)
        return {entry.optimizer for entry in takewhile(lambda entry: entry.step == step, last) if entry.skipped}

    def _announce(self) -> None:
        self._announced = self.number
        self._on_step(self._announced)

    def _counted(self, optimizer: Optimizer) -> None:
        self.optimizers[optimizer] = calling_line()
        self._counts[optimizer] += 1
        self._on_stepped(optimizer)

    def _scale(self, run: Callable[..., Any], scaler: torch.amp.GradScaler, outputs: Any) -> Any:
        if not scaler.is_enabled():
            return run(scaler, outputs)
        if self._numerics.enabled:
            with self._paused():
                self._numerics.scale = self._scales.get(id(scaler)) or float(scaler.get_scale())
            self._numerics.scaling = True
        try:
            scaled = run(scaler, outputs)
        finally:
            self._numerics.scaling = False
        self._curves.scale(scaled, outputs)
        if (scale := self._numerics.scale) is not None:
            self._numerics.scaled(scaled, scale)
        return scaled

    def _unscale(self, run: Callable[..., Any], scaler: torch.amp.GradScaler, optimizer: Optimizer) -> None:
        if scaler.is_enabled() and self._scaler is None:
            self._numerics.gradients(optimizer, self._numerics.scale or 1.0)
        self._working(scaler, lambda: run(scaler, optimizer))
        if scaler.is_enabled():
            self._numerics.unscaled(optimizer)

    def _step(self, run: Callable[..., Any], scaler: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if not scaler.is_enabled() or self._scaler is scaler:  # called by a subclass's method
            return run(scaler, optimizer, *args, **kwargs)
        state = scaler._per_optimizer_states[id(optimizer)]
        stage = state["stage"].name
        if stage == "READY":
            self._numerics.gradients(optimizer, self._numerics.scale or 1.0)
        result = self._working(scaler, lambda: run(scaler, optimizer, *args, **kwargs))
        with self._paused():
            skipped = any(found.item() for found in state["found_inf_per_device"].values())
            scale = float(scaler.get_scale())
        self._numerics.unscaled(optimizer)
        self._counted(optimizer)
        self._open.setdefault(id(scaler), []).append(len(self._history))
        name = f"scaler {list(self._open).index(id(scaler)) + 1}"
        line = calling_line()
        self._curves.stepped(name, line, self._announced, scale, skipped=skipped)
        place = (self._announced, *line, name)
        self._history.append(ScalerStep(*place, type(optimizer).__name__, stage, scale, skipped))
        return result

    def _update(self, run: Callable[..., Any], scaler: Any, *args: Any, **kwargs: Any) -> None:
        within = self._scaler is scaler
        self._working(scaler, lambda: run(scaler, *args, **kwargs))
        if within or not scaler.is_enabled():
            return
        with self._paused():
            after, tracker = float(scaler.get_scale()), int(scaler._get_growth_tracker())
        for index in self._open.get(id(scaler), []):
            self._history[index] = replace(self._history[index], after=after, growth_tracker=tracker)
        self._open[id(scaler)] = []
        self._shorten()
        self._scales[id(scaler)] = after
        self._announce()

    def _shorten(self) -> None:
        """Drop entries that are not reported, once `update()` has completed all; never those of the current step."""
        if len(self._history) >= 2 * SERIES_POINTS and not any(self._open.values()):
            now = [entry for entry in self._history if entry.step == self._announced]
            self._history = [*(entry for entry in self.history() if entry.step != self._announced), *now]

    def _is_kept(self, entry: ScalerStep) -> bool:
        return self._window.number(entry.step) % self._stride == 0

    def _clear(self, run: Callable[..., None], optimizer: Optimizer, set_to_none: bool = True) -> None:
        """Hide `zero_grad` from all modes: it runs no operation, but reads the attributes of every parameter."""
        if not set_to_none:
            run(optimizer, set_to_none)
            return
        self._on_optimizing(True)
        try:
            run(optimizer)
        finally:
            self._on_optimizing(self._scaler is not None)

    def _working(self, scaler: torch.amp.GradScaler, run: Callable[[], Any]) -> Any:
        outer, self._scaler = self._scaler, scaler
        self._on_optimizing(True)
        try:
            return run()
        finally:
            self._scaler = outer
            self._on_optimizing(outer is not None)


def _with_subclasses(kind: type[torch.amp.GradScaler]) -> Iterator[type[torch.amp.GradScaler]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _with_subclasses(subclass)


def _wrapped(original: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(scaler: object, *args: Any, **kwargs: Any) -> Any:
        return wrapper(original, scaler, *args, **kwargs)

    return method
