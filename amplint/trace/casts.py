"""Cast weights that a region keeps from a forward pass without gradients, and that learn nothing in the next one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import Parameter

from amplint.trace.kinds import PRODUCTS
from amplint.trace.sightings import Sightings
from amplint.trace.tally import HALF, Kind


def concerns(kind: Kind) -> bool:
    """Whether `Casts` has to be told of `kind`."""
    if kind.phase != "forward" or kind.region is None or HALF.isdisjoint(kind.outputs):
        return False
    return kind.op == "_to_copy" or kind.op in PRODUCTS


class Casts:
    """Remembers casts of parameters that autocast has made while there were no gradients."""

    def __init__(self, sightings: Sightings) -> None:
        self._sightings = sightings
        self._without: dict[int, StorageWeakRef] = {}

    def look(self, kind: Kind, args: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Look at what `kind`, which `concerns` this, took and gave."""
        if kind.op == "_to_copy":
            source = args[0]
            if isinstance(source, Parameter) and source.requires_grad and not torch.is_grad_enabled():
                storage = outputs[0].untyped_storage()
                self._without[storage._cdata] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        elif self._without and torch.is_grad_enabled():
            for one in inputs:
                known = self._without.get(one.untyped_storage()._cdata)
                if known is not None and not known.expired() and not one.requires_grad:  # type: ignore[no-untyped-call]
                    self._sightings.add("cached", kind, outputs[0].dtype)
                    return

    def end_step(self) -> None:
        """Forget what is gone."""
        alive = ((key, one) for key, one in self._without.items() if not one.expired())  # type: ignore[no-untyped-call]
        self._without = dict(alive)
