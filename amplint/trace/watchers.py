"""Observers of operations, dispatched by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from amplint.trace import coarse, gradients
from amplint.trace.data import Observation
from amplint.trace.gradients import Gradients
from amplint.trace.sightings import Sightings
from amplint.trace.states import FOLLOWED, States
from amplint.trace.tally import HALF, Kind
from amplint.trace.values import is_plain, unseen

Watcher = Callable[[Kind, Any, Any, list[Tensor], list[Tensor]], None]
"""Looks at a kind of operations with its arguments, inputs and outputs."""
_NORMALISES = frozenset({"native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm"})


class Watchers:
    """Dispatches operations to the observers concerned, which are determined once per kind."""

    def __init__(self, parameters: Callable[[], Iterable[Tensor]]) -> None:
        self._sightings = Sightings()
        self.gradients = Gradients(self._sightings, parameters)
        self.states = States(self._sightings, self.gradients.is_gradient)

    def of(self, kind: Kind) -> tuple[Watcher, ...]:
        """The observers of `kind`, none for most; the caller caches them with it."""
        name = kind.op.rstrip("_")
        in_place = kind.func._schema.is_mutable
        forward = kind.phase == "forward"
        found: list[Watcher] = []
        if in_place and not HALF.isdisjoint(kind.inputs) and kind.op != "copy_":
            found.append(self._wrote)
        if forward and name in FOLLOWED and (not in_place or kind.op == "copy_"):
            found.append(self._made)
        if forward and name in gradients.WATCHED:
            found.append(self._used)
        if forward and name in _NORMALISES and not HALF.isdisjoint(kind.inputs):
            found.append(self._normalised)
        if coarse.concerns(kind):
            found.append(self._counted)
        return tuple(found)

    def end_step(self) -> None:
        """A step ended."""
        with unseen():
            self.states.end_step()
        self.gradients.end_step()

    def observations(self) -> list[Observation]:
        """The observations so far."""
        return list(self._sightings.observations())

    def _wrote(self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        self.states.wrote(kind, args, kwargs)

    def _made(self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        if torch.is_grad_enabled():
            for one in inputs:
                if one.requires_grad:
                    return
        if outputs:
            self.states.made(kind, args, kwargs, outputs[0])

    def _used(self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        if self.gradients.scaled_ones:
            self.gradients.look(kind, args, inputs, outputs)

    def _counted(self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        if outputs:
            coarse.look(kind, args, outputs[0], self._sightings)

    def _normalised(self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        for one in args[3:5]:
            if isinstance(one, Tensor) and one.dtype in HALF and is_plain(one):
                with unseen():
                    self._sightings.add("infinite", kind, one.dtype, (~one.isfinite()).sum().double(), one.numel())
