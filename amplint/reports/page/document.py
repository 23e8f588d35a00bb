"""The page itself: everything in one text, with no script but its own and nothing from the network."""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from amplint import __version__
from amplint.findings import Finding, Severity
from amplint.reports.exponents import Shares, shares
from amplint.reports.page import figures
from amplint.reports.page.listing import listings
from amplint.reports.ran import PASSES, digits, share, total_seconds
from amplint.reports.text import visible
from amplint.trace.kinds import computed_in, computes
from amplint.trace.record import PHASES, HalfLoss, Histogram, Operation, Record

_FOLDER = Path(__file__).parent
_ROWS = 2000
"""Rows of a table; of more operations the busiest are shown."""


def page(record: Record, found: Sequence[Finding]) -> str:
    """`record` and what the checks `found` in it as an HTML document.

    The same record gives the same text, as long as the source files that it names, which are read, stay as they are.
    """
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    seconds = total_seconds(record)
    files = listings(record, found)
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(place=_place, path=_path)
    return environment.get_template("page.html.jinja").render(
        version=__version__,
        style=Markup((_FOLDER / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=digest,
        record=record,
        findings=found,
        worst={severity.label: sum(each.severity == severity for each in found) for severity in Severity},
        files=files,
        anchors={
            (file.filename, row.number): f"l{index}-{row.number}"
            for index, file in enumerate(files)
            for row in file.rows
        },
        timed=seconds > 0,
        phases=[phase for phase in PHASES if any(operation.phase == phase for operation in record.operations)],
        operations=_operations(record, seconds),
        left_out=max(len(record.operations) - _ROWS, 0),
        products=_products(record),
        exponents=_exponents(record),
        losses=_losses(record),
        scale=figures.loss_scale(record.scaler_steps) if record.scaler_steps else None,
        held=_held(record),
        updates=_updates(record),
        share=share,
        digits=digits,
    )


@dataclass(frozen=True)
class _Row:
    """A row of the table of operations."""

    operation: Operation
    dtype: str
    count: int
    seconds: float
    time: str


@dataclass(frozen=True)
class _Tensor:
    """A row of the table of exponents."""

    histogram: Histogram
    least: int | None
    most: int | None
    float16: Shares
    bfloat16: Shares


def _operations(record: Record, seconds: float) -> list[_Row]:
    rows = []
    for operation, count in record.operations.items():
        spent = record.seconds.get(operation, 0.0)
        dtype = computed_in(operation) if computes(operation) else ""
        rows.append(_Row(operation, dtype, count, spent, share(spent, seconds) if spent else ""))
    return sorted(rows, key=lambda row: (-row.seconds, -row.count))[:_ROWS]


def _products(record: Record) -> list[tuple[str, str, int]]:
    """Phase, dtype and number of the operations that compute, casts left out, in the order of phases."""
    counts: Counter[tuple[str, str]] = Counter()
    for operation, count in record.operations.items():
        if operation.phase in PASSES and computes(operation) and "->" not in computed_in(operation):
            counts[operation.phase, computed_in(operation)] += count
    return [(phase, dtype, counts[phase, dtype]) for phase in PASSES for at, dtype in counts if at == phase]


def _exponents(record: Record) -> dict[str, object]:
    known = [histogram for histogram in record.histograms if histogram.exponents]
    kinds = {kind: [each for each in known if each.what == kind] for kind in ("activation", "weight", "gradient")}
    tensors = [
        _Tensor(
            each,
            min(each.exponents, default=None),
            max(each.exponents, default=None),
            shares(Counter(each.exponents), figures.FLOAT16),
            shares(Counter(each.exponents), figures.BFLOAT16),
        )
        for each in record.histograms
    ]
    return {
        "plot": figures.exponents(known) if known else None,
        "tensors": {kind: figures.tensors(kind, members) for kind, members in kinds.items() if members},
        "rows": tensors,
    }


def _losses(record: Record) -> list[HalfLoss]:
    """What lost something, worst first."""
    lossy = [loss for loss in record.losses if loss.underflowed or loss.overflowed]
    return sorted(lossy, key=lambda loss: -(loss.underflowed + loss.overflowed) / max(loss.elements, 1))


def _held(record: Record) -> list[tuple[str, str, str, int, list[str]]]:
    """Optimizer, dtype of parameters, dtypes of its state, their number and their names."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for held in record.held:
        state = ", ".join(f"{name}: {dtype}" for name, dtype in held.state)
        groups.setdefault((held.optimizer, held.dtype, state), []).append(held.name)
    return [(*group, len(names), names) for group, names in groups.items()]


def _updates(record: Record) -> dict[str, object]:
    ratios: dict[str, list[float]] = {}
    lost: dict[str, float] = {}
    for update in record.updates:
        lost[update.name] = max(update.lost, lost.get(update.name, 0.0))
        if update.ratio is not None:
            ratios.setdefault(update.name, []).append(update.ratio)
    return {
        "plot": figures.updates(ratios) if any(map(any, ratios.values())) else None,
        "rows": [(name, max(ratios.get(name, [0.0])), part) for name, part in lost.items()],
    }


def _shown(value: object) -> object:
    """Text of the user's without characters that hide or reorder what stands around them."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _path(filename: str) -> str:
    inside = os.path.relpath(filename)
    return filename if inside.startswith(os.pardir) else inside


def _place(filename: str, row: int) -> str:
    return f"{_path(filename)}:{row}" if row else ""
