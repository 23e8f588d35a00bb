"""Numbers beyond the resolution of half: counts, positions, running sums and products, and angles."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from amplint.trace.sightings import Sightings
from amplint.trace.tally import HALF, Kind
from amplint.trace.values import is_plain, sample, unseen

_SAMPLE = 4096
_NEAR = 4
"""A factor that is fewer units of half's precision away from 1 has one digit."""
_TERMS = 16
_RADIANS = 0.5
"""Half's spacing beyond which the sine of a number is another one."""
WATCHED = frozenset({"arange", "_to_copy", "cumsum", "cumprod", "sin", "cos"})


def concerns(kind: Kind) -> bool:
    """Whether `look` applies to operations of `kind`."""
    if kind.phase != "forward" or kind.op not in WATCHED or HALF.isdisjoint(kind.outputs):
        return False
    from_integers = bool(kind.inputs) and not (kind.inputs[0].is_floating_point or kind.inputs[0] is torch.bool)
    return from_integers if kind.op == "_to_copy" else kind.op == "arange" or kind.inputs[:1] == kind.outputs[:1]


def look(kind: Kind, args: Any, output: Tensor, sightings: Sightings) -> None:
    """Check the result of an operation of `kind`, for which `concerns` holds."""
    if not is_plain(output):
        return
    unit = torch.finfo(output.dtype).eps
    with unseen():
        if kind.op == "arange":
            numbers = output.double()
            _see("counted", kind, output, sightings, numbers[1:] == numbers[:-1], numbers)
        elif kind.op == "_to_copy":
            given, made = sample(args[0], _SAMPLE), sample(output, _SAMPLE).double()
            _see("rounded", kind, output, sightings, made != given.double(), made)
        elif kind.op == "cumsum":
            _sum(kind, args, output, sightings)
        elif kind.op == "cumprod":
            away = (args[0].detach().double() - 1).abs().amax()
            if output.numel() >= _TERMS:
                sightings.add("factors", kind, output.dtype, (away > 0) & (away <= _NEAR * unit), 1.0)
        else:
            far = sample(args[0], _SAMPLE).double().abs().nan_to_num(posinf=0.0)
            _see("angle", kind, output, sightings, far * unit > _RADIANS, far)


def _sum(kind: Kind, args: Any, output: Tensor, sightings: Sightings) -> None:
    axis = args[1]
    if output.dim() == 0 or output.shape[axis] < _TERMS:
        return
    output = output.detach()
    after, before = output.narrow(axis, 1, output.shape[axis] - 1), output.narrow(axis, 0, output.shape[axis] - 1)
    terms = args[0].detach().narrow(axis, 1, output.shape[axis] - 1) != 0
    lost, largest = terms & (after == before), output.abs().amax().double()
    sightings.add("running", kind, output.dtype, lost.sum().double(), terms.sum().double(), size=largest)


def _see(what: str, kind: Kind, output: Tensor, sightings: Sightings, lost: Tensor, numbers: Tensor) -> None:
    """Record an observation of `numbers`, of which those marked in `lost` were lost."""
    if lost.numel():
        sightings.add(what, kind, output.dtype, lost.sum().double(), float(lost.numel()), size=numbers.abs().amax())
