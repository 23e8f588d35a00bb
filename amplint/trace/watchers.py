"""Those who look at operations of a few kinds, told only of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from amplint.trace import coarse, gradients
from amplint.trace.gradients import Gradients
from amplint.trace.record import Observation
from amplint.trace.sightings import Sightings
from amplint.trace.states import FOLLOWED, States
from amplint.trace.tally import HALF, Kind
from amplint.trace.values import is_plain, unseen

_NORMALISES = frozenset({"native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm"})


class Watchers:
    """Tells each watcher of what concerns it; which that is, is worked out once for a kind of operations."""

    def __init__(self, parameters: Callable[[], Iterable[Tensor]]) -> None:
        self._sightings = Sightings()
        self.gradients = Gradients(self._sightings, parameters)
        self.states = States(self._sightings, self.gradients.is_gradient)

    def look(self, kind: Kind, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """`kind` has run."""
        watchers = kind.watchers
        if watchers is None:
            watchers = kind.watchers = _concerned(kind)
        if not watchers:
            return
        if "written" in watchers:
            self.states.wrote(kind, args, kwargs)
        if "made" in watchers and outputs and not (torch.is_grad_enabled() and any(i.requires_grad for i in inputs)):
            self.states.made(kind, args, kwargs, outputs[0])
        if "gradients" in watchers and self.gradients.any:
            self.gradients.look(kind, args, inputs, outputs)
        if "coarse" in watchers and outputs:
            coarse.look(kind, args, outputs[0], self._sightings)
        if "statistics" in watchers:
            self._look_at_statistics(kind, args)

    def end_step(self) -> None:
        """A step is over."""
        with unseen():
            self.states.end_step()
        self.gradients.end_step()

    def observations(self) -> list[Observation]:
        """What was seen."""
        return list(self._sightings.observations())

    def _look_at_statistics(self, kind: Kind, args: Any) -> None:
        for one in args[3:5]:
            if isinstance(one, Tensor) and one.dtype in HALF and is_plain(one):
                with unseen():
                    self._sightings.add("infinite", kind, one.dtype, (~one.isfinite()).sum().double(), one.numel())


def _concerned(kind: Kind) -> frozenset[str]:
    name = kind.op.rstrip("_")
    found = set()
    in_place = kind.func._schema.is_mutable
    if in_place and not HALF.isdisjoint(kind.inputs) and kind.op != "copy_":
        found.add("written")
    if kind.phase == "forward":
        if name in FOLLOWED and (not in_place or kind.op == "copy_"):
            found.add("made")
        if name in gradients.WATCHED:
            found.add("gradients")
        if name in _NORMALISES and not HALF.isdisjoint(kind.inputs):
            found.add("statistics")
    if coarse.concerns(kind):
        found.add("coarse")
    return frozenset(found)
