"""The page's tables: their rows, and which rows are shown of many."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from amplint.records import dataclass
from amplint.reports.exponents import FLOAT8, Range, Shares, shares
from amplint.reports.page.choice import Shown, worst_items
from amplint.reports.ran import PASSES, share
from amplint.trace.compared import LineDrift, TensorDrift
from amplint.trace.data import Float8, HalfLoss, Histogram, NonFinite, Operation, RunData, ScalerStep
from amplint.trace.kinds import computed_in, computes

FLOAT16, BFLOAT16 = Range.of("float16"), Range.of("bfloat16")
_ROWS, _OPERATIONS = 400, 2000
"""Rows of a table, and of that of operations."""


@dataclass(frozen=True)
class Ran:
    """A kind of operation: its computation `dtype`, empty if it computes nothing, and its share of the time."""

    operation: Operation
    dtype: str
    count: int
    seconds: float
    time: str


@dataclass(frozen=True)
class Spread:
    """A tensor's exponents: `least` and `most`, None if all numbers are 0, and the shares in each format."""

    tensor: Histogram
    least: int | None
    most: int | None
    float16: Shares
    bfloat16: Shares


@dataclass(frozen=True)
class Group:
    """The `names` of parameters with the same optimizer, dtype and dtypes of optimizer state."""

    optimizer: str
    dtype: str
    state: str
    names: list[str]


@dataclass(frozen=True)
class Changed:
    """The updates of a parameter: their relative sizes, and the largest share that had no effect."""

    name: str
    ratios: list[float]
    lost: float


@dataclass(frozen=True)
class Filled:
    """An `operand` of float8 products, its largest number and scale, and the share of the format's range it uses."""

    operand: Float8
    amax: float | None
    scale: float | None
    filled: float


def operations(record: RunData, seconds: float) -> Shown[Ran]:
    """All kinds of operations, by time, or, without times, those that compute.

    `seconds` is the time of the run.
    """
    rows = []
    for operation, count in record.operations.items():
        spent = record.seconds.get(operation, 0.0)
        dtype = computed_in(operation) if computes(operation) else ""
        rows.append(Ran(operation, dtype, count, spent, share(spent, seconds) if spent else ""))
    ordered = sorted(rows, key=lambda row: (-row.seconds, not row.dtype, -row.count))
    return Shown(ordered[:_OPERATIONS], len(ordered[_OPERATIONS:]))


def products(record: RunData) -> list[tuple[str, str, int]]:
    """Phase, dtype and number of the operations that compute, without casts, in the order of phases."""
    counts: Counter[tuple[str, str]] = Counter()
    for operation, count in record.operations.items():
        if operation.phase in PASSES and computes(operation) and "->" not in computed_in(operation):
            counts[operation.phase, computed_in(operation)] += count
    return [(phase, dtype, counts[phase, dtype]) for phase in PASSES for at, dtype in counts if at == phase]


def spreads(record: RunData) -> Shown[Spread]:
    """The exponents of tensors; of many, the worst for float16."""
    rows = []
    for each in record.histograms:
        counts = Counter(each.exponents)
        least, highest = min(counts, default=None), max(counts, default=None)
        rows.append(Spread(each, least, highest, shares(counts, FLOAT16), shares(counts, BFLOAT16)))
    return worst_items(rows, _ROWS, lambda row: (row.float16.lost + row.float16.over) / max(row.float16.numbers, 1))


def float8(record: RunData) -> Shown[Filled]:
    """The operands of float8 products, the smallest share of the range first."""
    rows = []
    for operand in record.float8:
        pairs = zip(operand.amax, operand.scale, strict=True)
        known = [amax / scale for amax, scale in pairs if amax is not None and scale]
        largest = FLOAT8[operand.dtype][0] if operand.dtype in FLOAT8 else math.inf
        rows.append(Filled(operand, _most(operand.amax), _most(operand.scale), max(known, default=0.0) / largest))
    rows.sort(key=lambda row: row.filled)
    return Shown(rows[:_ROWS], len(rows[_ROWS:]))


def _most(values: Sequence[float | None]) -> float | None:
    """The largest number; None if one is not finite, or there is none."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def undrawn(record: RunData) -> list[str]:
    """Why nothing is drawn of activations, weights or gradients, one sentence each."""
    sentences = []
    for what, plural in (("activation", "activations"), ("weight", "weights"), ("gradient", "gradients")):
        seen = [each for each in record.histograms if each.what == what]
        zeros, nonfinite = sum(each.zeros for each in seen), sum(each.nonfinite for each in seen)
        if not seen or any(each.exponents for each in seen):
            continue
        looked = f"{zeros + nonfinite} numbers of {plural} that were looked at"
        if not zeros or not nonfinite:
            sentences.append(f"All {looked} are {'0' if zeros else 'inf or NaN'}: nothing is drawn of them.")
        else:
            sentences.append(f"Of the {looked} {zeros} are 0 and the others inf or NaN: nothing is drawn of them.")
    if record.histograms and record.steps and not any(each.what == "gradient" for each in record.histograms):
        sentences.append("No optimizer was seen to use gradients: nothing is drawn of them.")
    return sentences


def losses(record: RunData) -> Shown[HalfLoss]:
    """Operations whose results underflowed or overflowed, worst first."""
    lossy = [loss for loss in record.losses if loss.underflowed or loss.overflowed]
    ordered = sorted(lossy, key=lambda loss: -(loss.underflowed + loss.overflowed) / max(loss.elements, 1))
    return Shown(ordered[:_ROWS], len(ordered[_ROWS:]))


def lost_in_half(record: RunData) -> str:
    """How many of the checked kinds of operations underflowed or overflowed, and how many unchecked ones did."""
    lossy = sum(bool(loss.underflowed or loss.overflowed) for loss in record.losses)
    kinds = f"{len(record.losses)} kind{'s' if len(record.losses) != 1 else ''} of operations that were looked at"
    looked = ", one operation of eight," if record.numerics == "sample" else ""
    said = f"Of the {kinds}{looked} {lossy or 'none'} lost something"
    unseen = {(one.filename, one.row, one.op) for one in record.nonfinite if one.finite_in_float32}
    unseen -= {(one.filename, one.row, one.op) for one in record.losses if one.overflowed}
    if unseen:
        others = f"{len(unseen)} other{'s' if len(unseen) > 1 else ''}"
        said += (
            f"{', and so did' if lossy else ', but'} {others}{'' if lossy else ' did'}: see where inf and NaN come from"
        )
    return f"{said}."


def origins(record: RunData) -> Shown[NonFinite]:
    """The origins of inf and NaN, earliest first."""
    return Shown(record.nonfinite[:_ROWS], len(record.nonfinite[_ROWS:]))


def drifts(record: RunData) -> Shown[LineDrift]:
    """The errors of lines relative to float32, worst first."""
    lines = record.comparison.lines if record.comparison is not None else []
    return Shown(lines[:_ROWS], len(lines[_ROWS:]))


def strays(record: RunData) -> Shown[TensorDrift]:
    """The errors of module outputs and gradients relative to float32, worst first."""
    tensors = record.comparison.tensors if record.comparison is not None else []
    return Shown(tensors[:_ROWS], len(tensors[_ROWS:]))


def scaler_steps(record: RunData) -> Shown[ScalerStep]:
    """The scalers' history; of a long one, the steps that were skipped or changed the scale."""
    return worst_items(
        record.scaler_steps, _ROWS, lambda step: 2 * step.skipped + (step.after not in (None, step.scale))
    )


def held(record: RunData) -> list[Group]:
    """The parameters, grouped by optimizer, dtype and dtypes of state."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for each in record.held:
        state = ", ".join(f"{name}: {dtype}" for name, dtype in each.state)
        groups.setdefault((each.optimizer, each.dtype, state), []).append(each.name)
    return [Group(*kind, names) for kind, names in groups.items()]


def updates(record: RunData) -> Shown[Changed]:
    """The updates of parameters; of many, those with the largest lost share."""
    rows: dict[str, Changed] = {}
    for update in record.updates:
        row = rows.get(update.name, Changed(update.name, [], 0.0))
        ratios = [] if update.ratio is None or not math.isfinite(update.ratio) else [update.ratio]
        rows[update.name] = Changed(update.name, row.ratios + ratios, max(row.lost, update.lost))
    return worst_items(list(rows.values()), _ROWS, lambda row: row.lost)
