"""Where inf and NaN come from: operations that make them out of finite numbers.

On a CPU each result is looked at when it is there, and inputs only where it is not finite. Elsewhere that would hold up
the device after every operation: there `Flags` collects, and reads once in a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from amplint.trace.flags import Flags, Result
from amplint.trace.placement import is_on_host
from amplint.trace.record import NonFinite, dtype_name
from amplint.trace.replays import Replays
from amplint.trace.tally import Kind
from amplint.trace.values import has_infinite_scalar, is_finite, is_plain, is_sound

_LIMIT = 500


class Origins:
    """The operations that made inf or NaN out of finite numbers, each with the first step that it did.

    They may be meant: an inf in a mask that a softmax follows, a NaN in a metric. So they count when something comes of
    them in the same step: something in the backward pass that is not finite, a single number on the way to it, what a
    whole model returns, or an exception, where a NaN was on the way. `current` tells the step, the loss scale, and
    whether a scaler multiplies a loss: what comes of that belongs to the backward pass. `replays` runs them again.
    """

    def __init__(self, current: Callable[[], tuple[int, float | None, bool]]) -> None:
        self.found: dict[tuple[Any, ...], NonFinite] = {}
        self._pending: dict[tuple[Any, ...], NonFinite] = {}
        self._on_the_way = False
        self.replays = Replays(1)
        self._current = current
        self._flags = Flags(self._judge, self.confirm)

    def begins_finite(self, args: Any) -> bool:
        """Whether what an operation is to change in place is finite now; elsewhere than on a CPU `Flags` knows."""
        first = args[0] if args else None
        if isinstance(first, (list, tuple)):
            return all(self.begins_finite((part,)) for part in first)
        return not isinstance(first, Tensor) or is_sound(first)

    def look(
        self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor], began: bool
    ) -> None:
        """Look at what `kind` made. `began` is what `begins_finite` told, true for what does not work in place."""
        if kind.device == "cpu" and not kind.computes:
            return
        if not all(map(is_on_host, outputs)):
            self._flags.look(kind, inputs, outputs, _is_meant(args, kwargs))
        elif kind.computes:
            made = [tensor for tensor in outputs if is_plain(tensor)]
            if not all(map(is_finite, made)):
                self._hit(kind, args, kwargs, inputs, made, began)

    def leave_model(self, output: Tensor) -> None:
        """A whole model has returned `output`."""
        if not is_plain(output):
            return
        if not is_on_host(output):
            self._flags.leave_model(output)
        elif self._pending and not is_finite(output):
            self.confirm()

    def end_step(self) -> None:
        """What nothing has come of by now is meant."""
        self._flags.read()
        self._pending.clear()
        self._on_the_way = False

    def break_off(self) -> None:
        """The script has failed, in the middle of a step."""
        self._flags.read()
        if self._on_the_way:
            self.confirm()

    def _hit(self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], made: list[Tensor], began: bool) -> None:
        others = [tensor for tensor in inputs if not any(tensor is result for result in made)]
        origin = began and not _is_meant(args, kwargs) and all(map(_is_known_finite, others))
        nan = any(bool(tensor.isnan().any()) for tensor in made)
        cured = None
        if origin and kind.replayable:
            exact = self.replays.replay(kind, args, kwargs)
            cured = all(is_finite(tensor) for tensor in exact if is_plain(tensor)) if exact else None
        self._judge(Result.of(kind, inputs, made), nan, origin, cured)

    def _judge(self, result: Result, nan: bool, origin: bool, cured: bool | None) -> None:
        kind = result.kind
        if origin:
            step, scale, scaling = self._current()
            phase = "backward" if scaling else kind.phase
            key = (phase, kind.func, kind.line, kind.module, nan, scale)
            if key not in self.found and len(self.found) + len(self._pending) < _LIMIT:
                self._pending.setdefault(key, _nonfinite(kind, phase, step, nan, scale, cured))
        self._on_the_way |= nan and result.leads_to_gradients
        if result.matters:
            self.confirm()

    def confirm(self) -> None:
        """Something has come of what was found in this step."""
        self.found.update(self._pending)
        self._pending.clear()


def _nonfinite(kind: Kind, phase: str, step: int, nan: bool, scale: float | None, cured: bool | None) -> NonFinite:
    seen = kind.operation()
    dtype = next(dtype for dtype in kind.outputs if dtype.is_floating_point)
    place = (seen.op, seen.api, seen.filename, seen.row, seen.module)
    return NonFinite(step, phase, *place, "nan" if nan else "inf", dtype_name(dtype), scale, cured)


def _is_meant(args: Any, kwargs: Any) -> bool:
    """Whether a number that is written there is inf or NaN itself."""
    return has_infinite_scalar(args) or bool(kwargs and has_infinite_scalar(kwargs.values()))


def _is_known_finite(tensor: Tensor) -> bool:
    if tensor.numel() == 0 or (type(tensor) is torch.Tensor and not tensor.dtype.is_floating_point):
        return True
    return is_plain(tensor) and is_finite(tensor)
