"""Numbers that half cannot tell apart: counts, positions, running sums and products, and angles."""

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
    """Whether `look` may see something in what `kind` makes."""
    if kind.phase != "forward" or kind.op not in WATCHED or HALF.isdisjoint(kind.outputs):
        return False
    from_integers = bool(kind.inputs) and not (kind.inputs[0].is_floating_point or kind.inputs[0] is torch.bool)
    return from_integers if kind.op == "_to_copy" else kind.op == "arange" or kind.inputs[:1] == kind.outputs[:1]


def look(kind: Kind, args: Any, output: Tensor, sightings: Sightings) -> None:
    """Look at what `kind`, which `concerns` this, has made."""
    if not is_plain(output):
        return
    unit = torch.finfo(output.dtype).eps
    with unseen():
        if kind.op == "arange":
            numbers = output.float()
            repeated = int((numbers[1:] == numbers[:-1]).sum())
            _add("counted", kind, output, sightings, repeated, output.numel() - 1, float(numbers.abs().amax()))
        elif kind.op == "_to_copy":
            given, made = sample(args[0], _SAMPLE), sample(output, _SAMPLE).double()
            changed = int((made != given.double()).sum())
            _add("rounded", kind, output, sightings, changed, given.numel(), float(made.abs().amax()))
        elif kind.op == "cumsum":
            _sum(kind, args, output, sightings)
        elif kind.op == "cumprod":
            away = (args[0].detach().double() - 1).abs()
            if away.numel() >= _TERMS and 0 < float(away.amax()) <= _NEAR * unit:
                sightings.add("factors", kind, output.dtype)
        else:
            far = sample(args[0], _SAMPLE).double().abs()
            if not far.isfinite().all():
                return
            unclear = int((far * unit > _RADIANS).sum())
            _add("angle", kind, output, sightings, unclear, far.numel(), float(far.amax()))


def _sum(kind: Kind, args: Any, output: Tensor, sightings: Sightings) -> None:
    axis = args[1]
    if output.dim() == 0 or output.shape[axis] < _TERMS:
        return
    after, before = output.narrow(axis, 1, output.shape[axis] - 1), output.narrow(axis, 0, output.shape[axis] - 1)
    terms = args[0].detach().narrow(axis, 1, output.shape[axis] - 1) != 0
    lost = int((terms & (after == before)).sum())
    _add("running", kind, output, sightings, lost, int(terms.sum()), float(output.detach().abs().amax()))


def _add(what: str, kind: Kind, output: Tensor, sightings: Sightings, lost: int, whole: int, size: float) -> None:
    if lost:
        sightings.add(what, kind, output.dtype, lost=lost, whole=whole, size=size)
