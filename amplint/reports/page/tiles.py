"""The tiles: key figures of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from amplint.findings import Finding, Severity
from amplint.records import dataclass
from amplint.reports.memory import Unit
from amplint.reports.ran import PASSES, scale_text, share
from amplint.reports.verdict import Place, origin, steps
from amplint.torchlib.names import HALF_DTYPES
from amplint.trace.data import RunData
from amplint.trace.kinds import computed_in, computes, is_float8, is_product


@dataclass(frozen=True)
class Tile:
    """A `value` with its label, a `note` below it, and whether it is `bad`."""

    name: str
    value: str
    note: str
    bad: bool = False


def tiles(record: RunData, found: Sequence[Finding], place: Place) -> list[Tile]:
    """The tiles for which the run has data."""
    return [
        *_products(record),
        *_steps(record),
        *_nonfinite(record, found, place),
        *_memory(record),
        *_loss(record),
        *_findings(found),
    ]


def _products(record: RunData) -> Iterator[Tile]:
    counts = Counter[str]()
    for operation, count in record.operations.items():
        if operation.phase in PASSES and is_product(operation) and computes(operation):
            counts[computed_in(operation)] += count
    if counts:
        half = sum(count for dtype, count in counts.items() if dtype in HALF_DTYPES or is_float8(dtype))
        note = ", ".join(f"{dtype} {count}" for dtype, count in counts.most_common())
        yield Tile("products in half", share(half, counts.total()), note)


def _steps(record: RunData) -> Iterator[Tile]:
    was = steps(record)
    if record.scaler_steps:
        scales = [step.scale for step in record.scaler_steps]
        after = record.scaler_steps[-1].after
        last = scales[-1] if after is None else after
        note = f"loss scale {scale_text(scales[0])}" + (f" to {scale_text(last)}" if last != scales[0] else "")
        yield Tile("skipped steps", f"{was.skipped} of {was.seen}", note, was.none_trained)
    elif was.seen:
        yield Tile("skipped steps", f"0 of {was.seen}", "no gradient scaler")


def _nonfinite(record: RunData, found: Sequence[Finding], place: Place) -> Iterator[Tile]:
    blamed = origin(record, found)
    first = blamed or min(record.nonfinite, key=lambda one: one.step, default=None)
    if first is not None:
        kind = "NaN" if first.kind == "nan" else first.kind
        note = f"{kind} in step {first.step + 1}, {first.op}{'' if blamed else '; nothing serious'}"
        yield Tile("first inf or NaN", place(first.filename, first.row), note, blamed is not None)
    elif record.numerics != "off" and record.operations:
        yield Tile("first inf or NaN", "none", "every result was looked at")


def _memory(record: RunData) -> Iterator[Tile]:
    if record.memory:
        unit = Unit.for_sizes([record.memory])
        yield Tile("memory", f"{unit.of(record.memory)} {unit.name}", "peak on one GPU, including the tracer's")


def _loss(record: RunData) -> Iterator[Tile]:
    for series in [series for series in record.series if series.what == "loss" and series.values][:1]:
        first, last = series.values[0], series.values[-1]
        value = "inf or NaN" if last is None else f"{last:.4g}"
        before = "inf or NaN" if first is None else f"{first:.4g}"
        note = f"{before} in step {series.steps[0] + 1}" if len(series.values) > 1 else ""
        yield Tile("loss", value, note, last is None)


def _findings(found: Sequence[Finding]) -> Iterator[Tile]:
    counts = Counter(finding.severity for finding in found)
    note = ", ".join(
        f"{count} {severity.label}{'' if count == 1 else 's'}"
        for severity, count in sorted(counts.items(), reverse=True)
    )
    yield Tile("findings", str(len(found) or "none"), note, any(severity > Severity.INFO for severity in counts))
