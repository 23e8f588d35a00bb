"""Tables of memory for the terminal, in GiB."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from amplint.records import dataclass
from amplint.reports.context import Sources
from amplint.reports.text import one_line, visible
from amplint.reports.trace import place
from amplint.trace.gpus import GPUS, Gpu, fitting
from amplint.trace.memory.estimates import KINDS, Estimate
from amplint.trace.memory.states import States

_FITS = "fits"
_COLUMNS = ("", "weights", "gradients", "masters", "optimizer", "total", _FITS)


def of_states(parameters: int, optimizer: str, found: Sequence[States], width: int = 80) -> str:
    """What a model of so many `parameters` keeps from step to step under each recipe, and which GPUs hold it."""
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


_PHASES = {"forward": "the forward pass of", "backward": "the backward pass of", "optimizer": "the step at"}
_SHOWN = KINDS[:4]
"""Kinds of memory with a column of their own."""


def of_peaks(found: Sequence[Estimate], gpu: Gpu, width: int = 80) -> str:
    """The peak of each variant of a script by what the memory is used for, and where that of the first one is.

    The first one has a peak.
    """
    unit = Unit.for_sizes(each.total for each in found)
    rows = [_row(each, unit) for each in found]
    head = f"peak memory on {gpu.name}, in {unit.name}"
    parts = [head, "", *table(("", *_SHOWN, "other", "total", _FITS), rows), ""]
    first = found[0]
    parts += [f"{first.variant}: the peak is in {_PHASES[first.phase]}", f"  {_place(first)}"[:width]]
    others = [f"{kind} {unit.of(first.peak[kind])}" for kind in KINDS[4:] if first.peak[kind]]
    parts += textwrap.wrap(f"other, {first.variant}: {', '.join(others)}", width)
    return "\n".join([*parts, *textwrap.wrap(gpus(), width)]) + "\n"


def refusal(each: Estimate) -> str:
    """Why a variant has no peak, and at which line."""
    return one_line(f"{each.refused} ({place(each.filename, each.row)})" if each.row else each.refused)


def _row(each: Estimate, unit: Unit) -> tuple[str, ...]:
    if each.refused:
        return visible(each.variant), refusal(each)
    shown = [each.peak[kind] for kind in _SHOWN]
    sizes = [*shown, each.total - sum(shown), each.total]
    return (visible(each.variant), *map(unit.of, sizes), _smallest(each.total))


def _place(found: Estimate) -> str:
    source = Sources().line(found.filename, found.row) if found.row else None
    return f"{place(found.filename, found.row)}  {visible((source or '').strip())}".rstrip()


def _smallest(size: int) -> str:
    """The memory of the smallest GPU that holds `size` bytes, in GiB."""
    return str(next((gpu.memory for gpu in fitting(size)), "none"))


def gpus() -> str:
    """What the last column says, for the GPUs that amplint knows."""
    by_size = groupby(sorted(GPUS, key=lambda name: GPUS[name].memory), lambda name: GPUS[name].memory)
    sizes = "; ".join(f"{memory} {', '.join(names)}" for memory, names in by_size)
    return f"fits: GiB of the smallest GPU that holds it; {sizes}."


@dataclass(frozen=True)
class Unit:
    """What sizes are told in."""

    name: str
    size: int

    @classmethod
    def for_sizes(cls, sizes: Iterable[int]) -> Unit:
        """GiB, or MiB where all `sizes` in bytes are small."""
        return cls("GiB", 2**30) if max(sizes) >= 2**30 else cls("MiB", 2**20)

    def of(self, size: int) -> str:
        """`size` bytes with two decimals."""
        number = f"{size / self.size:.2f}"
        return "-" if not size else "<0.01" if number == "0.00" else number


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows in columns, the first to the left and the others to the right. A row of two cells is a name and a text."""
    whole = [row for row in (head, *rows) if len(row) == len(head)]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    widths[0] = max(len(row[0]) for row in (head, *rows))
    for row in (head, *rows):
        cells = zip(row[1:], widths[1:], strict=True) if row in whole else ((text, 0) for text in row[1:])
        yield "  ".join((row[0].ljust(widths[0]), *(text.rjust(width) for text, width in cells))).rstrip()
