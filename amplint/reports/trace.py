"""A record of a run for the terminal: dtypes by line, the scaler, numerical findings, tensors held in half."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from amplint.findings import Finding
from amplint.reports.context import Sources
from amplint.reports.drift import against_float32
from amplint.reports.exponents import Range, scales, shares, summed
from amplint.reports.float8 import float8
from amplint.reports.module_table import by_module
from amplint.reports.ran import PASSES, Line, changed, codes, lines, named, scale_text, share, total_seconds
from amplint.reports.ranks import rank_suffix
from amplint.reports.text import columns, cut, display_path, visible, wrap
from amplint.reports.verdict import verdict
from amplint.trace.check import through
from amplint.trace.data import Histogram, NonFinite, RunData, ScalerStep

_LINES, _STEPS = 12, 20
"""How many lines of code are shown, and how many stretches of the scaler's history."""
_BUSIEST = 3
"""Lines of libraries that are named for one of the user's code."""
_CODE = 24
"""Columns that a line of code needs beside its place."""
_TOGETHER = "\N{NO-BREAK SPACE}"


def summary(record: RunData, found: Sequence[Finding], width: int = 80) -> str:
    """The summary, in lines of at most `width` columns where possible; `found` are the checks' findings."""
    steps = f"{record.steps or 'no'} {'step' if record.steps == 1 else 'steps'}"
    head = f"{steps} on {record.device or 'no device'}, torch {record.torch}{rank_suffix(record)}"
    dry = [f"dry run: the CPU computed for {record.gpu}"] if record.gpu else []
    ran = [*_lines(record, found, width), *by_module(record, width), *against_float32(record, width)]
    verdicts = wrap(verdict(record, found, place).text, width, "  ", "")
    lines = [head, *dry, *verdicts, *ran, *_scaler(record), *_numbers(record, width)]
    lines += [*float8(record, width), *_held(record)]
    return "\n".join(map(visible, lines)) + "\n"


def _lines(record: RunData, found: Sequence[Finding], width: int) -> Iterator[str]:
    ran = lines(record, found)
    if ran:
        yield from ("", "line by line, worst first:")
    sources, seconds = Sources(), total_seconds(record)
    for line in ran[:_LINES]:
        marks = [codes(line.findings), share(line.seconds, seconds) if line.seconds else ""]
        yield from _head(line, sources, "  ".join(filter(None, marks)), width)
        yield from _dtypes(line, width)
        yield from _libraries(line, width)
    if len(ran) > _LINES:
        yield f"  ... and {len(ran) - _LINES} more lines"
    for filename in sorted(changed(record)):
        yield f"  {visible(display_path(filename))} has changed since; its lines may be others"


def _head(line: Line, sources: Sources, marks: str, width: int) -> Iterator[str]:
    """Place, code and marks; the code on a line of its own if it would be cut too short."""
    source = visible(((sources.line(line.filename, line.row) if line.row else None) or "").strip())
    text = f"  {place(line.filename, line.row)}"
    room = width - columns(marks) - 2 if marks else width
    if columns(source) > _CODE > room - columns(text) - 2:
        yield _marked(text, marks, room)
        yield f"      {cut(source, width - 6)}"
    else:
        yield _marked(cut(f"{text}  {source}".rstrip(), room), marks, room)


def _marked(text: str, marks: str, room: int) -> str:
    return text + " " * (room + 2 - columns(text)) + marks if marks else text


def _dtypes(line: Line, width: int) -> Iterator[str]:
    groups = [(phase, dtype, ops) for phase in PASSES for dtype, ops in line.by_dtype(phase).items()]
    phases, dtypes = (max(len(group[column]) for group in groups) for column in (0, 1))
    before = ""
    for phase, dtype, ops in groups:
        first = f"      {phase if phase != before else '':<{phases}}  {dtype:<{dtypes}}  "
        before = phase
        text = named(ops).replace(" x", _TOGETHER + "x")
        for row in textwrap.wrap(text, width, initial_indent=first, subsequent_indent=" " * len(first)):
            yield row.replace(_TOGETHER, " ")


def _libraries(line: Line, width: int) -> Iterator[str]:
    """The library lines with most of its operations."""
    counts: Counter[tuple[str, int]] = Counter()
    for operation, count in line.operations.items():
        if operation.library_row:
            counts[operation.library, operation.library_row] += count
    if counts:
        named = ", ".join(place(*one) for one, _ in counts.most_common(_BUSIEST))
        more = f" and {len(counts) - _BUSIEST} more lines" if len(counts) > _BUSIEST else ""
        yield from wrap(f"in {named}{more}", width, " " * 9, " " * 6)


def _scaler(record: RunData) -> Iterator[str]:
    if record.scaler_steps:
        yield from ("", "loss scale:")
    several = len({step.scaler for step in record.scaler_steps}) > 1
    by_scaler = sorted(record.scaler_steps, key=lambda step: step.scaler)
    stretches = [list(group) for _, group in groupby(by_scaler, _grouping_key)]
    for stretch in stretches[:_STEPS]:
        first, last = stretch[0], stretch[-1]
        numbers = f"step {first.step + 1}" if first is last else f"steps {first.step + 1} to {last.step + 1}"
        what = "skipped: gradients were inf or NaN" if first.skipped else "stepped"
        after = f" -> {scale_text(first.after)}" if first.after is not None and first.after != first.scale else ""
        who = f"{first.scaler}, " if several else ""
        yield f"  {who}{numbers}: {scale_text(first.scale)}{after}  {first.optimizer} {what}"
    if len(stretches) > _STEPS:
        yield f"  ... and {len(stretches) - _STEPS} more changes"


def _grouping_key(step: ScalerStep) -> object:
    """Equal for adjacent steps that are shown as one: the scale did not change in them."""
    quiet = not step.skipped and step.after in (None, step.scale)
    return (step.scaler, step.optimizer, step.scale) if quiet else step


def _numbers(record: RunData, width: int) -> Iterator[str]:
    gradients = [histogram for histogram in record.histograms if histogram.what == "gradient"]
    parts = [*_gradients(gradients), *_losses(record), *_nonfinite(record.nonfinite)]
    if parts:
        yield from ("", "numbers:")
    for part in parts:
        yield from wrap(part, width, "    ", "  ")


def _gradients(gradients: list[Histogram]) -> Iterator[str]:
    bare = summed(gradients, unscaled=True)
    if not bare:
        return
    half = Range.of("float16")
    yield f"gradients go from 2^{min(bare)} to 2^{max(bare)}, float16 from 2^{half.smallest} to 2^{half.largest}"
    lost = shares(bare, half)
    yield f"as float16 without a loss scale: {share(lost.lost, lost.numbers)} of them underflow to 0"
    carried = scales(gradients)
    if carried:
        at = shares(summed(gradient for gradient in gradients if gradient.scale != 1.0), half)
        over = f", {share(at.over, at.numbers)} overflow" if at.over else ""
        which = (
            scale_text(carried[0]) if len(carried) == 1 else f"{scale_text(carried[0])} to {scale_text(carried[-1])}"
        )
        yield f"with the scale in use, {which}: {share(at.lost, at.numbers)}{over}"


def _losses(record: RunData) -> Iterator[str]:
    worst = sorted(record.losses, key=lambda loss: -(loss.underflowed + loss.overflowed) / max(loss.elements, 1))
    for loss in worst[:1]:
        if loss.underflowed or loss.overflowed:
            yield (
                f"{place(loss.filename, loss.row)} loses most by {loss.dtype} ({loss.phase} of {visible(loss.op)}): "
                f"{share(loss.underflowed, loss.elements)} to 0, {share(loss.overflowed, loss.elements)} to inf"
                f"{through(loss)}"
            )


def _nonfinite(origins: list[NonFinite]) -> Iterator[str]:
    for first in sorted(origins, key=lambda origin: origin.step)[:1]:
        what = "NaN" if first.kind == "nan" else first.kind
        yield (
            f"first {what}: {place(first.filename, first.row)}, step {first.step + 1}, "
            f"{first.phase} of {visible(first.op)} in {first.dtype}{through(first)}"
        )


def _held(record: RunData) -> Iterator[str]:
    counts = Counter((held.optimizer, held.dtype, tuple(dtype for _, dtype in held.state)) for held in record.held)
    if counts:
        yield from ("", "parameters:")
    for (optimizer, dtype, state), count in counts.items():
        kept = f", state in {', '.join(sorted(set(state)))}" if state else ""
        yield f"  {optimizer}: {count} in {dtype}{kept}"


def place(filename: str, row: int) -> str:
    """`train.py:12` relative to the current folder, `elsewhere` without a line."""
    return f"{visible(display_path(filename))}:{row}" if row else "elsewhere"
