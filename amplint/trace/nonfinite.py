"""Origins of inf and NaN: operations that make them out of finite values.

On a CPU each result is checked immediately, and inputs only if it is not finite. Elsewhere that would synchronise
after every operation: there `Flags` collects, and reads once a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from amplint.trace.data import NonFinite, dtype_name
from amplint.trace.flags import Flags, Result
from amplint.trace.placement import is_on_host
from amplint.trace.replays import Replays
from amplint.trace.tally import Kind
from amplint.trace.values import has_infinite_scalar, is_finite, is_plain, is_sound

_LIMIT = 500


class Origins:
    """The operations that made inf or NaN out of finite values, each with its first step.

    They may be intended: an inf in a mask before a softmax, a NaN in a metric. So they count only with a consequence in
    the same step: something in the backward pass that is not finite, or a single number on the way to it, or a whole
    model's output, or an exception after a NaN in the forward pass. `current` returns the step, the loss scale, and
    whether a scaler multiplies a loss: consequences of that belong to the backward pass. `replays` reruns operations.
    """

    def __init__(self, current: Callable[[], tuple[int, float | None, bool]]) -> None:
        self.found: dict[tuple[Any, ...], NonFinite] = {}
        self._pending: dict[tuple[Any, ...], NonFinite] = {}
        self._on_the_way = False
        self.replays = Replays(1)
        self._current = current
        self._flags = Flags(self._judge, self.confirm)

    def begins_finite(self, args: Any) -> bool:
        """Whether the target of an in-place operation is finite now; elsewhere than on a CPU `Flags` knows."""
        first = args[0] if args else None
        if isinstance(first, (list, tuple)):
            return all(self.begins_finite((part,)) for part in first)
        return not isinstance(first, Tensor) or is_sound(first)

    def look(
        self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor], began: bool
    ) -> None:
        """Check the results of `kind`. `began` is the result of `begins_finite`, true for other operations."""
        if kind.device == "cpu" and not kind.computes:
            return
        if not all(map(is_on_host, outputs)):
            self._flags.look(kind, inputs, outputs, _is_meant(args, kwargs))
        elif kind.computes:
            made = [tensor for tensor in outputs if is_plain(tensor)]
            if not all(map(is_finite, made)):
                self._record_nonfinite(kind, args, kwargs, inputs, made, began)

    def leave_model(self, output: Tensor) -> None:
        """A whole model returned `output`."""
        if not is_plain(output):
            return
        if not is_on_host(output):
            self._flags.leave_model(output)
        elif self._pending and not is_finite(output):
            self.confirm()

    def end_step(self) -> None:
        """Discard origins without a consequence."""
        self._flags.read()
        self._pending.clear()
        self._on_the_way = False

    def abort_step(self) -> None:
        """The script failed in the middle of a step."""
        self._flags.read()
        if self._on_the_way:
            self.confirm()

    def _record_nonfinite(
        self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], made: list[Tensor], began: bool
    ) -> None:
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
            key = (phase, kind.func, kind.line, kind.library, kind.module, nan, scale)
            if key not in self.found and len(self.found) + len(self._pending) < _LIMIT:
                self._pending.setdefault(key, _nonfinite(kind, phase, step, nan, scale, cured))
        self._on_the_way |= nan and result.leads_to_gradients
        if result.matters:
            self.confirm()

    def confirm(self) -> None:
        """The origins of this step have a consequence."""
        self.found.update(self._pending)
        self._pending.clear()


def _nonfinite(kind: Kind, phase: str, step: int, nan: bool, scale: float | None, cured: bool | None) -> NonFinite:
    seen = kind.operation()
    dtype = next(dtype for dtype in kind.outputs if dtype.is_floating_point)
    place = (seen.op, seen.api, seen.filename, seen.row, seen.module)
    what = ("nan" if nan else "inf", dtype_name(dtype), scale, cured)
    return NonFinite(step, phase, *place, *what, seen.library, seen.library_row)


def _is_meant(args: Any, kwargs: Any) -> bool:
    """Whether an argument is itself inf or NaN."""
    return has_infinite_scalar(args) or bool(kwargs and has_infinite_scalar(kwargs.values()))


def _is_known_finite(tensor: Tensor) -> bool:
    if tensor.numel() == 0 or (type(tensor) is torch.Tensor and not tensor.dtype.is_floating_point):
        return True
    return is_plain(tensor) and is_finite(tensor)
