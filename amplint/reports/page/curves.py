"""The page's plots over the steps of a run: losses, loss scale, tensor magnitudes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, PercentFormatter

from amplint.reports.exponents import FLOAT8, Range
from amplint.reports.page.choice import worst_items
from amplint.reports.page.figures import short
from amplint.reports.page.plots import BAD, COARSE, FILL, INK, LINE, MUTED, WIDTH_IN, drawn, power, style
from amplint.reports.page.tables import FLOAT16
from amplint.reports.ran import scale_text
from amplint.reports.verdict import Place
from amplint.trace.data import Float8, RunData, ScalerStep, Series

_LARGEST = {
    "activation": "Largest activation of each module",
    "gradient": "Largest gradient of each parameter, with the loss scale",
    "underflow": "Gradients that float16 makes 0, of each parameter",
}
_COLOURS = (LINE, COARSE, INK, MUTED)
_HEIGHT_IN = 2.4
_LIMIT = 2.0**128
"""What is beyond float32's range is drawn at its end."""


def curves(record: RunData, place: Place) -> list[Markup]:
    """The plots for which the run has data; `place` names lines of code."""
    plots = [*_losses(record.series, place), *_scales(record)]
    for what in _LARGEST:
        members = [one for one in record.series if one.what == what and len(one.steps) > 1]
        if any(value for one in members for value in one.values):
            plots.append(_sizes(what, members))
    return [*plots, *_float8(record.float8)]


def _losses(series: Sequence[Series], place: Place) -> Iterator[Markup]:
    known = [one for one in series if one.what == "loss" and len(one.steps) > 1]
    if not any(value is not None for one in known for value in one.values):
        return
    with style():
        figure, axis = _figure("Loss")
        for number, one in enumerate(known[: len(_COLOURS)]):
            label = place(one.filename, one.row)
            axis.plot(_numbers(one), _values(one), color=_COLOURS[number], linewidth=1.2, label=label)
        _mark_nonfinite(axis, known)
        if len(known) > 1 or axis.get_legend_handles_labels()[1][1:]:
            _legend(figure, axis, 1)
        yield drawn(figure, "curve-loss", f"The loss over {len(known[0].steps)} steps")


def _scales(record: RunData) -> Iterator[Markup]:
    long = record.every > 1 and any(one.what == "scale" for one in record.series)
    if long or record.scaler_steps:
        with style():
            figure, axis = _figure("Loss scale")
            skipped = _long_scales(axis, record.series) if long else _scale_of_each_step(axis, record.scaler_steps)
            axis.set_yscale("log", base=2, nonpositive="mask")
            axis.yaxis.set_major_formatter(FuncFormatter(lambda scale, _: scale_text(scale)))
            axis.yaxis.set_major_locator(LogLocator(2, numticks=6))
            axis.minorticks_off()
            axis.margins(y=0.2)
            _legend(figure, axis, 2)
            yield drawn(figure, "loss-scale", f"The loss scale over the steps, {skipped} of them skipped")


def _long_scales(axis: Axes, series: Sequence[Series]) -> int:
    """Draw the scales of all steps, marking those by which more steps were skipped; return the number skipped."""
    skipped = {one.name: one for one in series if one.what == "skipped"}
    scales = [one for one in series if one.what == "scale"]
    marks: list[tuple[int, float]] = []
    for number, one in enumerate(scales):
        dashes = "solid" if number == 0 else (0, (4, 1 + number))
        axis.plot(
            _numbers(one), _values(one), drawstyle="steps-post", color=LINE, linestyle=dashes, label=short(one.name)
        )
        counts = [0.0, *_values(skipped[one.name])] if one.name in skipped else []
        grown = [after > before for before, after in pairwise(counts)]
        marks += [at for at, more in zip(zip(_numbers(one), _values(one), strict=True), grown, strict=False) if more]
    _mark_skipped(axis, marks)
    return sum(int(one.values[-1] or 0) for one in skipped.values() if one.values)


def _scale_of_each_step(axis: Axes, steps: Sequence[ScalerStep]) -> int:
    """Draw each scaler's scale in each step; return the number of skipped steps."""
    by_scaler = sorted(steps, key=lambda step: step.scaler)
    for number, (scaler, group) in enumerate(groupby(by_scaler, lambda step: step.scaler)):
        history = list(group)
        last = history[-1]
        numbers = [*(step.step + 1 for step in history), last.step + 2]
        scales = [*(step.scale for step in history), last.scale if last.after is None else last.after]
        dashes = "solid" if number == 0 else (0, (4, 1 + number))
        axis.plot(numbers, scales, drawstyle="steps-post", color=LINE, linestyle=dashes, label=short(scaler))
    skipped = [(step.step + 1, step.scale) for step in steps if step.skipped]
    _mark_skipped(axis, skipped)
    return len(skipped)


def _mark_skipped(axis: Axes, places: Sequence[tuple[int, float]]) -> None:
    if places:
        x, y = zip(*places, strict=True)
        axis.plot(x, y, "x", color=BAD, markersize=5, markeredgewidth=1.4, label="skipped steps")


def _sizes(what: str, members: Sequence[Series]) -> Markup:
    """A band from the smallest to the largest of all, and the worst as lines."""
    with style():
        figure, axis = _figure(_LARGEST[what])
        worst = worst_items(
            members, len(_COLOURS), lambda one: max((value for value in one.values if value), default=0)
        ).rows
        if len(members) > len(worst):
            axis.fill_between(*_band(members), color=FILL, alpha=0.5, linewidth=0, label=f"all {len(members)}")
        for one, colour in zip(worst, _COLOURS, strict=False):
            axis.plot(_numbers(one), _values(one), color=colour, linewidth=1.2, label=short(one.name))
        if what == "underflow":
            axis.yaxis.set_major_formatter(PercentFormatter(1.0))
        else:
            axis.set_yscale("log", base=2, nonpositive="mask")
            low, high = axis.get_ylim()
            axis.set_ylim(low, max(high, 2.0 ** (FLOAT16.largest + 2)))
            axis.axhspan(2.0 ** (FLOAT16.largest + 1), 2.0**1000, color=BAD, alpha=0.12, linewidth=0)
            _mark_powers(axis)
        _mark_nonfinite(axis, members)
        _legend(figure, axis, 1)
        return drawn(figure, f"curve-{what}", f"{_LARGEST[what]}, {len(members)} of them")


def _float8(operands: Sequence[Float8]) -> Iterator[Markup]:
    """For each format a plot of the share of its range that operands use, the smallest as lines."""
    for dtype in dict.fromkeys(one.dtype for one in operands if one.dtype in FLOAT8 and len(one.steps) > 1):
        members = [_filled(one) for one in operands if one.dtype == dtype and len(one.steps) > 1]
        of, title = Range.of(dtype), f"Largest numbers of operands, as {dtype} holds them"
        with style():
            figure, axis = _figure(title)
            empty = worst_items(
                members, len(_COLOURS), lambda one: -min((size for size in one.values if size), default=0)
            ).rows
            if len(members) > len(empty):
                axis.fill_between(*_band(members), color=FILL, alpha=0.5, linewidth=0, label=f"all {len(members)}")
            for one, colour in zip(empty, _COLOURS, strict=False):
                axis.plot(_numbers(one), _values(one), color=colour, linewidth=1.2, label=short(one.name))
            axis.set_yscale("log", base=2, nonpositive="mask")
            axis.set_ylim(2.0**of.smallest, 2.0 ** (of.largest + 2))
            axis.axhspan(FLOAT8[dtype][0], 2.0**1000, color=BAD, alpha=0.12, linewidth=0)
            axis.axhspan(2.0**-200, 2.0**of.normal, color=COARSE, alpha=0.12, linewidth=0)
            _mark_powers(axis)
            _mark_nonfinite(axis, members)
            _legend(figure, axis, 1)
            yield drawn(figure, f"curve-{dtype}", f"{title}, {len(members)} of them")


def _filled(operand: Float8) -> Series:
    """The operand's largest number relative to the format's maximum."""
    pairs = zip(operand.amax, operand.scale, strict=True)
    sizes = tuple(None if amax is None or not scale else amax / scale for amax, scale in pairs)
    return Series("", f"{operand.module} {operand.operand}", operand.filename, operand.row, operand.steps, sizes)


def _mark_powers(axis: Axes) -> None:
    axis.yaxis.set_major_locator(LogLocator(2, numticks=6))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda size, _: power(round(math.log2(size))) if size else "0"))
    axis.minorticks_off()


def _band(members: Sequence[Series]) -> tuple[list[int], list[float], list[float]]:
    """Step numbers, and the smallest and largest value of each."""
    at: dict[int, list[float]] = {}
    for one in members:
        for step, value in zip(_numbers(one), _values(one), strict=True):
            if not math.isnan(value):
                at.setdefault(step, []).append(value)
    steps = sorted(at)
    return steps, [min(at[step]) for step in steps], [max(at[step]) for step in steps]


def _mark_nonfinite(axis: Axes, members: Sequence[Series]) -> None:
    """Mark each step with an inf or NaN at the upper edge."""
    steps = sorted(
        {step + 1 for one in members for step, value in zip(one.steps, one.values, strict=True) if value is None}
    )
    if steps:
        axis.plot(
            *(steps, [0.98] * len(steps), "x"),
            transform=axis.get_xaxis_transform(),
            color=BAD,
            markersize=5,
            markeredgewidth=1.4,
            label="inf or NaN",
        )


def _figure(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_IN, _HEIGHT_IN), layout="constrained")
    axis = figure.subplots()
    axis.set_title(title, pad=4)
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axis.set_xlabel("step")
    return figure, axis


def _legend(figure: Figure, axis: Axes, columns: int) -> None:
    handles, names = axis.get_legend_handles_labels()
    figure.set_size_inches(WIDTH_IN, _HEIGHT_IN + 0.17 * -(-len(names) // columns))
    figure.legend(handles, names, loc="outside lower left", ncols=columns, frameon=False, labelcolor=INK, fontsize=7.5)


def _numbers(series: Series) -> list[int]:
    return [step + 1 for step in series.steps]


def _values(series: Series) -> list[float]:
    return [math.nan if value is None else max(-_LIMIT, min(value, _LIMIT)) for value in series.values]
