"""Merging of the records of several ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from amplint.trace.compared import joined
from amplint.trace.data import Call, Float8, HalfLoss, Histogram, Operation, ScalerStep, Series
from amplint.trace.divergence import divergences
from amplint.trace.record import Record

_Item = TypeVar("_Item")


class Unmergeable(ValueError):
    """Records that are not of one run; the message is one line for the user."""


def merged(records: Sequence[Record]) -> Record:
    """One record of those of several ranks, with their differences.

    It reads as the record of one rank: operations and calls have the highest count and time of any rank, and a scaler's
    history is kept once if all agree. Numerical counts are added up. Raises Unmergeable.
    """
    ranks = _by_rank(records)
    ordered = list(ranks.values())
    first = ordered[0]
    operations: Counter[Operation] = Counter()
    calls: Counter[Call] = Counter()
    seconds: dict[Operation, float] = {}
    for record in ordered:
        operations |= record.operations
        calls |= record.calls
        for operation, spent in record.seconds.items():
            seconds[operation] = max(spent, seconds.get(operation, 0.0))
    return Record(
        torch=first.torch,
        device=first.device,
        steps=max(record.steps for record in ordered),
        taken=max(record.taken for record in ordered),
        skip=first.skip,
        backwards=max(record.backwards for record in ordered),
        started=sum(record.started for record in ordered),
        every=first.every,
        command=first.command,
        began=first.began,
        rank=None,
        ranks=first.ranks,
        cut=any(record.cut for record in ordered),
        numerics=first.numerics,
        gpu=first.gpu,
        memory=max((record.memory for record in ordered if record.memory is not None), default=None),
        operations=operations,
        seconds=seconds,
        calls=calls,
        failures=list(dict.fromkeys(failure for record in ordered for failure in record.failures)),
        sources=_sources(ordered),
        scaler_steps=list(_scaler_steps(ranks)),
        held=list(dict.fromkeys(held for record in ordered for held in record.held)),
        nonfinite=list(dict.fromkeys(origin for record in ordered for origin in record.nonfinite)),
        losses=_joined((loss for record in ordered for loss in record.losses), _place, _loss),
        histograms=_joined((one for record in ordered for one in record.histograms), _name, _histogram),
        updates=list(dict.fromkeys(update for record in ordered for update in record.updates)),
        series=_joined((one for record in ordered for one in record.series), _curve, _series),
        float8=_joined((one for record in ordered for one in record.float8), _operand, _float8),
        observations=list(dict.fromkeys(one for record in ordered for one in record.observations)),
        divergences=divergences(ranks),
        comparison=joined([record.comparison for record in ordered if record.comparison is not None]),
    )


def _by_rank(records: Sequence[Record]) -> dict[int, Record]:
    ranks: dict[int, Record] = {}
    for record in records:
        if record.rank is None:
            raise Unmergeable("one of these records is merged already")
        if record.rank in ranks:
            raise Unmergeable(f"two of these records are of rank {record.rank}")
        ranks[record.rank] = record
    if len({record.ranks for record in records}) > 1:
        raise Unmergeable("these records are of runs with different numbers of ranks")
    return dict(sorted(ranks.items()))


def _sources(records: Iterable[Record]) -> dict[str, str]:
    """The digest of each file, empty if ranks ran different ones."""
    digests: dict[str, set[str]] = {}
    for record in records:
        for filename, digest in record.sources.items():
            digests.setdefault(filename, set()).add(digest)
    return {filename: found.pop() if len(found) == 1 else "" for filename, found in digests.items()}


def _scaler_steps(ranks: dict[int, Record]) -> Iterator[ScalerStep]:
    first = next(iter(ranks.values())).scaler_steps
    yield from first
    for rank, record in ranks.items():
        if record.scaler_steps != first:
            yield from (replace(step, scaler=f"{step.scaler} of rank {rank}") for step in record.scaler_steps)


def _joined(
    items: Iterable[_Item], key: Callable[[_Item], object], join: Callable[[_Item, _Item], _Item]
) -> list[_Item]:
    """`items`, with those of equal key joined."""
    found: dict[object, _Item] = {}
    for item in items:
        seen = found.get(key(item))
        found[key(item)] = item if seen is None else join(seen, item)
    return list(found.values())


def _place(loss: HalfLoss) -> object:
    library = loss.library, loss.library_row
    return (loss.phase, loss.op, loss.filename, loss.row, *library, loss.module, loss.dtype, loss.scale)


def _name(histogram: Histogram) -> object:
    return (histogram.what, histogram.name, histogram.dtype, histogram.scale)


def _loss(one: HalfLoss, other: HalfLoss) -> HalfLoss:
    return replace(
        one,
        elements=one.elements + other.elements,
        underflowed=one.underflowed + other.underflowed,
        overflowed=one.overflowed + other.overflowed,
        smallest=min((loss.smallest for loss in (one, other) if loss.smallest is not None), default=None),
        largest=max((loss.largest for loss in (one, other) if loss.largest is not None), default=None),
    )


def _histogram(one: Histogram, other: Histogram) -> Histogram:
    return replace(
        one,
        exponents=dict(Counter(one.exponents) + Counter(other.exponents)),
        zeros=one.zeros + other.zeros,
        nonfinite=one.nonfinite + other.nonfinite,
    )


def _curve(series: Series) -> object:
    return (series.what, series.name, series.filename, series.row, series.steps)


def _series(one: Series, other: Series) -> Series:
    """The larger of both; for values that ranks share, such as the loss, those of the first."""
    if one.what not in ("activation", "gradient", "underflow"):
        return one
    return replace(one, values=_larger(one.values, other.values))


def _operand(one: Float8) -> object:
    library = one.library, one.library_row
    return (one.phase, one.filename, one.row, *library, one.module, one.operand, one.dtype, one.steps)


def _float8(one: Float8, other: Float8) -> Float8:
    """The larger of both."""
    return replace(one, amax=_larger(one.amax, other.amax), scale=_larger(one.scale, other.scale))


def _larger(one: tuple[float | None, ...], other: tuple[float | None, ...]) -> tuple[float | None, ...]:
    pairs = zip(one, other, strict=True)
    return tuple(None if here is None or there is None else max(here, there) for here, there in pairs)
