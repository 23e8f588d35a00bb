"""Differences between the ranks of one run.

Reported only if ranks exchange tensors: otherwise they are separate runs. Lines that some ranks never ran are left out
(rank 0 logs and saves alone), and so are dtypes that one rank ran in addition (it validates alone).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeVar

from amplint.trace.data import Divergence, Operation, RunData, is_floating
from amplint.trace.kinds import computes

Ranks = Mapping[int, RunData]
"""The record of each rank, in order of rank."""

_COLLECTIVES = ("all_gather", "all_reduce", "all_to_all", "allgather", "allreduce", "alltoall", "reduce_scatter")
"""How the names of operations begin that bring tensors of other ranks."""
_FORWARD = ("forward", "recomputation")
_Key = TypeVar("_Key")
_What = TypeVar("_What")
_Place = tuple[str, str, str, int, str]


def is_collective(op: str) -> bool:
    """Whether the operation of this name receives data from other ranks."""
    return op.strip("_").startswith(_COLLECTIVES)


def divergences(ranks: Ranks) -> list[Divergence]:
    """The differences between the runs of several ranks, the most severe first."""
    if len(ranks) < 2 or not all(any(is_collective(ran.op) for ran in record.operations) for record in ranks.values()):
        return []
    found = [*_nonfinite(ranks), *_skipped(ranks), *_dtypes(ranks)]
    if len({record.steps for record in ranks.values()}) == 1 and not any(record.cut for record in ranks.values()):
        found += [*_unequal("backward", ranks), *_unequal("count", ranks)]
    return found


def _nonfinite(ranks: Ranks) -> Iterator[Divergence]:
    """The operation that made the first inf or NaN of a forward pass, if not every rank made one in that step.

    Those of a backward pass come from other ranks with the next exchange of gradients, or from the loss scale.
    """
    made = [(rank, origin) for rank, record in ranks.items() for origin in record.nonfinite if origin.phase in _FORWARD]
    if not made:
        return
    _, first = min(made, key=lambda pair: pair[1].step)
    makers = {rank: origin.kind for rank, origin in made if origin.step == first.step}
    if len(makers) < len(ranks):
        did = tuple((rank, makers.get(rank, "finite")) for rank in ranks)
        place = (first.phase, first.op, first.filename, first.row, first.module)
        yield Divergence("nonfinite", *place, did, step=first.step)


def _skipped(ranks: Ranks) -> Iterator[Divergence]:
    """The first step that a scaler skipped on some ranks only."""
    steps = {
        rank: {(it.step, it.scaler, it.optimizer): it for it in record.scaler_steps} for rank, record in ranks.items()
    }
    differing = [shared for _, shared in _shared(steps) if len({step.skipped for step in shared.values()}) > 1]
    for shared in differing[:1]:
        first = next(iter(shared.values()))
        did = tuple((rank, "skipped" if step.skipped else "stepped") for rank, step in shared.items())
        yield Divergence("skipped", "optimizer", "", first.filename, first.row, "", did, step=first.step)


def _dtypes(ranks: Ranks) -> Iterator[Divergence]:
    """The first operation that ranks ran in different dtypes."""
    ran = {rank: _dtypes_run(record) for rank, record in ranks.items()}
    differing = [(place, shared) for place, shared in _shared(ran) if _clash(list(shared.values()))]
    lines = {(filename, row) for (_, _, filename, row, _), _ in differing}
    for place, shared in differing[:1]:
        did = tuple((rank, " and ".join(sorted(dtypes))) for rank, dtypes in shared.items())
        yield Divergence("dtype", *place, did, len(lines))


def _dtypes_run(record: RunData) -> dict[_Place, set[str]]:
    """The floating dtypes of results, or of operands if there is no result, of each operation at each line."""
    dtypes: dict[_Place, set[str]] = defaultdict(set)
    for ran in record.operations:
        if ran.row and computes(ran):
            floating = filter(is_floating, ran.outputs or ran.inputs)
            dtypes[ran.phase, ran.op, ran.filename, ran.row, ran.module].update(floating)
    return dtypes


def _clash(dtypes: list[set[str]]) -> bool:
    """Whether two ranks each ran a dtype that the other did not."""
    return any(one - other and other - one for one in dtypes for other in dtypes)


def _unequal(kind: str, ranks: Ranks) -> Iterator[Divergence]:
    """The lines that ranks ran unequally often: all operations, or calls of `backward()`."""
    counts = {rank: _counts(record, backward=kind == "backward") for rank, record in ranks.items()}
    for (phase, filename, row), shared in _shared(counts):
        if len(set(shared.values())) > 1:
            did = tuple((rank, str(count)) for rank, count in shared.items())
            yield Divergence(kind, phase, "", filename, row, "", did)


def _counts(record: RunData, *, backward: bool) -> Counter[tuple[str, str, int]]:
    counts: Counter[tuple[str, str, int]] = Counter()
    for ran, count in record.operations.items():
        if ran.row and ran.phase != "optimizer" and (not backward or _starts_backward(ran)):
            counts[ran.phase, ran.filename, ran.row] += count
    return counts


def _starts_backward(ran: Operation) -> bool:
    """Whether this is the initial gradient of a loss, with which each call of `backward()` begins."""
    return ran.op == "ones_like" and ran.api.endswith(".backward")


def _shared(ranks: Mapping[int, Mapping[_Key, _What]]) -> Iterator[tuple[_Key, dict[int, _What]]]:
    """The entries that every rank has, in the order of the first."""
    first = next(iter(ranks.values()))
    for key in first:
        if all(key in has for has in ranks.values()):
            yield key, {rank: has[key] for rank, has in ranks.items()}
