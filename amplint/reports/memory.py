"""Tables of memory for the terminal, in GiB."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from amplint.trace.gpus import GPUS
from amplint.trace.memory.states import GIB, States

_COLUMNS = ("", "weights", "gradients", "masters", "optimizer", "total", "fits in", "half copies")


def of_states(parameters: int, optimizer: str, found: Sequence[States], width: int = 80) -> str:
    """What a model of so many `parameters` keeps from step to step under each recipe, and which GPUs hold it."""
    rows = [
        (
            each.recipe,
            *map(gib, (each.weights, each.gradients, each.masters, each.optimizer, each.total)),
            str(each.fits[0].memory) if each.fits else "none",
            gib(each.copies),
        )
        for each in found
    ]
    head = f"model states of {parameters:,} parameters with {optimizer}, in GiB"
    parts = [head, "", *table(_COLUMNS, rows), ""]
    for text in (
        f"GPUs: {gpus()}.",
        "Activations come on top. Half copies are what torch.autocast makes of float32 weights in a forward pass and "
        "keeps for the backward pass: they pass, and are not in the total.",
    ):
        parts += textwrap.wrap(text, width)
    return "\n".join(parts) + "\n"


def gpus() -> str:
    """The GPUs that amplint knows, by the size of their memory."""
    by_size = groupby(sorted(GPUS, key=lambda name: GPUS[name].memory), lambda name: GPUS[name].memory)
    return "; ".join(f"{memory} GiB {', '.join(names)}" for memory, names in by_size)


def gib(size: int) -> str:
    """`size` bytes as GiB, with digits enough to tell small ones apart."""
    number = size / GIB
    if not size:
        return "-"
    return f"{number:.2f}" if number >= 0.1 else f"{number:.4f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows in columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        first, *others = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        numbers = [cell.strip().rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join(("", first, *numbers)).rstrip()
