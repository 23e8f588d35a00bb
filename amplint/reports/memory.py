"""Tables of memory for the terminal, in GiB."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from amplint.records import dataclass
from amplint.reports.context import Sources
from amplint.reports.text import one_line, visible
from amplint.reports.trace import place
from amplint.trace.gpus import GPUS, Gpu, fitting
from amplint.trace.memory.derived import largest_batch
from amplint.trace.memory.estimates import KINDS, Estimate, Holder
from amplint.trace.memory.states import States

_FITS = "fits"
_COLUMNS = ("", "weights", "gradients", "masters", "optimizer", "total", _FITS)


def of_states(parameters: int, optimizer: str, found: Sequence[States], width: int = 80) -> str:
    """The persistent state of a model with `parameters` parameters under each recipe, and the GPUs that hold it."""
    unit = Unit.for_sizes(each.total for each in found)
    rows = [
        (
            each.recipe,
            *map(unit.of, (each.weights, each.gradients, each.masters, each.optimizer, each.total)),
            _smallest(each.total),
        )
        for each in found
    ]
    head = f"model states of {parameters:,} parameters with {optimizer}, in {unit.name}"
    parts = [head, "", *table(_COLUMNS, rows), ""]
    copies = max(each.copies for each in found)
    for text in (
        gpus(),
        "Activations come on top, and under AMP the half copies that torch.autocast makes of float32 weights in a "
        f"forward pass and keeps for the backward pass: {unit.of(copies)} {unit.name} for a while.",
    ):
        parts += textwrap.wrap(text, width)
    return "\n".join(parts) + "\n"


_MOST = 5
"""Holders that are shown."""
_EASY = ("AMP bfloat16", "AMP float16", "fused optimizer", "checkpointing")
"""Variants by how little they change, the one that changes least first."""
_WORTHWHILE, _LITTLE = 0.2, 0.1
"""Shares of the peak: what is easy and saves the first comes first; what saves less than the second is not worth it."""
_HOW = {
    "AMP bfloat16": "run forward passes under autocast in bfloat16",
    "AMP float16": "run forward passes under autocast in float16, with a GradScaler",
    "fused optimizer": "give the optimizer fused=True",
    "checkpointing": "put the repeated blocks under torch.utils.checkpoint",
    "8-bit optimizer": "take an 8-bit optimizer",
    "bfloat16 weights": "keep the weights in bfloat16",
    "optimizer on CPU": "keep the optimizer's numbers on the CPU",
}
_BFLOAT16 = (8, 0)
_PHASES = {"forward": "the forward pass of", "backward": "the backward pass of", "optimizer": "the step at"}
_SHOWN = KINDS[:4]
"""Kinds of memory with a column of their own."""


def of_peaks(found: Sequence[Estimate], gpu: Gpu, width: int = 80) -> str:
    """The peak of each variant of a script by use, and the location of the first variant's peak.

    The first variant has a peak. Variants with the same result are shown once.
    """
    first = found[0]
    unit = Unit.for_sizes(each.total for each in found)
    rows = [_row(each, _equal_variant(each, found[:index]), unit) for index, each in enumerate(found)]
    head = f"peak memory on {gpu.name}, in {unit.name}"
    parts = [head, "", *table(("", *_SHOWN, "other", "total", _FITS), rows), ""]
    if any(each.derived for each in found):
        parts += ["~: worked out from the rows above, not run", ""]
    parts += [
        f"{first.variant}: the peak is in {_PHASES[first.phase]}",
        f"  {_place(first.filename, first.row)}"[:width],
    ]
    if first.holders:
        parts += ["what holds most of it:", *(f"  {line}"[:width] for line in _holders(first.holders, unit))]
    others = [f"{kind} {unit.of(first.peak[kind])}" for kind in KINDS[4:] if first.peak[kind]]
    texts = [f"other, {first.variant}: {', '.join(others)}", _batches(first), _advice(found, gpu, unit), gpus()]
    for text in filter(None, texts):
        parts += textwrap.wrap(text, width)
    return "\n".join(parts) + "\n"


def refusal(each: Estimate) -> str:
    """Why a variant has no peak, and at which line."""
    return one_line(f"{each.refused} ({place(each.filename, each.row)})" if each.row else each.refused)


def _equal_variant(each: Estimate, before: Sequence[Estimate]) -> Estimate | None:
    """The first earlier variant with the same result."""
    return next((one for one in before if each.peak and one.peak == each.peak), None)


def _row(each: Estimate, twin: Estimate | None, unit: Unit) -> tuple[str, ...]:
    name = f"{'~ ' if each.derived else ''}{visible(each.variant)}"
    if each.refused:
        return name, refusal(each)
    if twin is not None:
        return name, f'the same as "{visible(twin.variant)}"'
    shown = [each.peak[kind] for kind in _SHOWN]
    sizes = [*shown, each.total - sum(shown), each.total]
    return (name, *map(unit.of, sizes), _smallest(each.total))


def _place(filename: str, row: int) -> str:
    source = Sources().line(filename, row) if row else None
    return f"{place(filename, row)}  {visible((source or '').strip())}".rstrip()


def _holders(holders: Sequence[Holder], unit: Unit) -> Iterator[str]:
    """The tensors that hold most: size, kind, module and line."""
    cells = [(unit.of(each.size), each.kind, visible(each.module) or "-") for each in holders[:_MOST]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for (size, kind, module), each in zip(cells, holders, strict=False):
        columns = size.rjust(widths[0]), kind.ljust(widths[1]), module.ljust(widths[2])
        yield "  ".join((*columns, _place(each.filename, each.row))).rstrip()


def _batches(first: Estimate) -> str:
    """The largest batch for each GPU size."""
    sizes = sorted({gpu.memory for gpu in GPUS.values()})
    times = {size: largest_batch(first, size) for size in sizes}
    if not all(map(math.isfinite, times.values())):
        return ""
    if first.batch:
        estimates = [f"{math.floor(first.batch * factor):,} on {size} GiB" for size, factor in times.items()]
        return f"largest batch, {first.variant}, of {first.batch:,} now: about {', '.join(estimates)}."
    estimates = [f"{factor:.1f} on {size} GiB" for size, factor in times.items()]
    return f"largest batch, {first.variant}, in batches of now: about {', '.join(estimates)}."


def _advice(found: Sequence[Estimate], gpu: Gpu, unit: Unit) -> str:
    """The change to make first, easy ones preferred, and the memory it saves."""
    first = found[0]
    saved = {each.variant: 1 - each.total / first.total for each in found[1:] if each.peak}
    preferred = [name for name in _EASY if saved.get(name, 0) >= _WORTHWHILE]
    if gpu.capability < _BFLOAT16:
        preferred = [name for name in preferred if name not in ("AMP bfloat16", "bfloat16 weights")]
    best = next(iter(preferred), max(saved, key=lambda name: saved[name], default=""))
    if saved.get(best, 0) < _LITTLE:
        return "change first: nothing of this saves a tenth; a smaller batch does."
    size = unit.of(round(saved[best] * first.total))
    return f"change first: {_HOW.get(best, best)}, which saves {size} {unit.name}, {saved[best]:.0%} of the peak."


def _smallest(size: int) -> str:
    """The memory of the smallest GPU that holds `size` bytes, in GiB."""
    return str(next((gpu.memory for gpu in fitting(size)), "none"))


def gpus() -> str:
    """The last column, for the GPUs that amplint knows."""
    by_size = groupby(sorted(GPUS, key=lambda name: GPUS[name].memory), lambda name: GPUS[name].memory)
    sizes = "; ".join(f"{memory} {', '.join(names)}" for memory, names in by_size)
    return f"fits: GiB of the smallest GPU that holds it; {sizes}."


@dataclass(frozen=True)
class Unit:
    """The unit of sizes."""

    name: str
    size: int

    @classmethod
    def for_sizes(cls, sizes: Iterable[int]) -> Unit:
        """GiB, or MiB if all `sizes` in bytes are small."""
        return cls("GiB", 2**30) if max(sizes) >= 2**30 else cls("MiB", 2**20)

    def of(self, size: int) -> str:
        """`size` bytes with two decimals."""
        number = f"{size / self.size:.2f}"
        return "-" if not size else "<0.01" if number == "0.00" else number


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows in columns, the first left-aligned and the others right-aligned. A row of two cells is a name and a text."""
    whole = [row for row in (head, *rows) if len(row) == len(head)]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    widths[0] = max(len(row[0]) for row in (head, *rows))
    for row in (head, *rows):
        cells = zip(row[1:], widths[1:], strict=True) if row in whole else ((text, 0) for text in row[1:])
        yield "  ".join((row[0].ljust(widths[0]), *(text.rjust(width) for text, width in cells))).rstrip()
