"""The plots of the page: exponents against the ranges of formats, the loss scale, and updates of weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator, PercentFormatter

from amplint.reports.exponents import by_name, rescaled, scales, shares, summed
from amplint.reports.page.choice import most
from amplint.reports.page.plots import BAD, COARSE, FILL, INK, LINE, MUTED, WIDTH_IN, drawn, power, style
from amplint.reports.page.tables import BFLOAT16, FLOAT16
from amplint.reports.ran import digits
from amplint.reports.text import visible
from amplint.trace.record import Histogram, ScalerStep

_ROWS = 24
"""Tensors and parameters in one plot; those with most out of float16's range, or with the largest updates."""
_NAME = 44
"""Characters of a name in a plot."""


_PLURAL = {"activation": "Activations", "weight": "Weights", "gradient": "Gradients"}


def exponents(histograms: Sequence[Histogram]) -> Markup | None:
    """How numbers of each kind spread over exponents; gradients also as another loss scale would place them."""
    kinds = _by_kind(histograms)
    if not kinds:
        return None
    with style():
        figure = Figure(figsize=(WIDTH_IN, 0.8 + 1.5 * len(kinds)), layout="tight")
        ratios = [0.3, *[1.0] * len(kinds)]
        ranges, *axes = figure.subplots(len(ratios), sharex=True, height_ratios=ratios)
        _ranges(ranges)
        ends = []
        for axis, (kind, members) in zip(axes, kinds.items(), strict=True):
            values = summed(members)
            axis.stairs(*_stairs(values), fill=True, color=FILL)
            ends += [min(values), max(values)]
            if kind == "gradient":
                moved, scale = rescaled(members)
                label = "without a loss scale" if scale == 1.0 else f"with a loss scale of {digits(scale)}"
                axis.stairs(*_stairs(moved), color=LINE, linestyle=(0, (3, 2)), label=label)
                axis.legend(loc="upper left", frameon=False, labelcolor=INK, handlelength=1.4)
                ends += [min(moved), max(moved)]
            _zones(axis)
            axis.set_title(f"{_PLURAL[kind]}{_carried(members)}", pad=4)
            axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            axis.yaxis.set_major_locator(MaxNLocator(3))
            axis.margins(y=0.12)
        _powers(axes[-1], ends)
        axes[-1].set_xlabel("magnitude")
        return drawn(figure, "exponents", f"Histograms of the exponents of {', '.join(_PLURAL[k] for k in kinds)}")


def tensors(histograms: Sequence[Histogram]) -> dict[str, Markup]:
    """For each kind of tensors a box plot of their exponents; of many tensors the worst for float16."""
    return {kind: _boxes(kind, by_name(members)) for kind, members in _by_kind(histograms).items()}


def _boxes(kind: str, names: dict[str, Counter[int]]) -> Markup:
    shown = most(list(names), _ROWS, lambda name: _out_of_range(names[name])).rows
    with style():
        figure = Figure(figsize=(WIDTH_IN, 0.6 + 0.19 * len(shown)), layout="tight")
        axis = figure.subplots()
        line = {"color": INK, "linewidth": 0.8}
        axis.bxp(
            [_box(name, names[name]) for name in shown],
            orientation="horizontal",
            showfliers=False,
            patch_artist=True,
            widths=0.55,
            boxprops={"facecolor": FILL, "edgecolor": INK, "linewidth": 0.8},
            whiskerprops=line,
            capprops=line,
            medianprops={"color": INK, "linewidth": 1.6},
        )
        axis.invert_yaxis()
        axis.spines["left"].set_visible(False)
        axis.tick_params(axis="y", length=0)
        _zones(axis)
        _powers(axis, [exponent for name in shown for exponent in names[name]])
        return drawn(figure, f"tensors-{kind}", f"Ranges of the exponents of {len(shown)} {_PLURAL[kind].lower()}")


def loss_scale(steps: Sequence[ScalerStep]) -> Markup | None:
    """The loss scale of each scaler over the steps, with those that were skipped."""
    if not steps:
        return None
    with style():
        figure = Figure(figsize=(WIDTH_IN, 2.2), layout="tight")
        axis = figure.subplots()
        by_scaler = sorted(steps, key=lambda step: step.scaler)
        for number, (scaler, group) in enumerate(groupby(by_scaler, lambda step: step.scaler)):
            history = list(group)
            last = history[-1]
            numbers = [*(step.step + 1 for step in history), last.step + 2]
            scales = [*(step.scale for step in history), last.scale if last.after is None else last.after]
            dashes = "solid" if number == 0 else (0, (4, 1 + number))
            axis.plot(numbers, scales, drawstyle="steps-post", color=LINE, linestyle=dashes, label=_short(scaler))
        skipped = [step for step in steps if step.skipped]
        if skipped:
            places = [step.step + 1 for step in skipped], [step.scale for step in skipped]
            axis.plot(*places, "x", color=BAD, markersize=6, markeredgewidth=1.6, label="skipped step")
        axis.set_yscale("log", base=2, nonpositive="mask")
        axis.yaxis.set_major_formatter(FuncFormatter(lambda scale, _: digits(scale)))
        axis.minorticks_off()
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_xlabel("step")
        axis.margins(y=0.2)
        axis.legend(loc="best", frameon=False, labelcolor=INK)
        return drawn(figure, "loss-scale", f"The loss scale over {len(steps)} steps, {len(skipped)} of them skipped")


def updates(ratios: dict[str, list[float]]) -> Markup | None:
    """The norm of each parameter's updates over that of the parameter, a mark for each step."""
    known = {name: [ratio for ratio in members if ratio > 0] for name, members in ratios.items()}
    shown = most([name for name in known if known[name]], _ROWS, lambda name: max(known[name])).rows
    points = [(ratio, row) for row, name in enumerate(shown) for ratio in known[name]]
    if not points:
        return None
    with style():
        figure = Figure(figsize=(WIDTH_IN, 0.6 + 0.19 * len(shown)), layout="tight")
        axis = figure.subplots()
        axis.plot([ratio for ratio, _ in points], [row for _, row in points], "|", color=LINE, markersize=7)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}"))
        axis.minorticks_off()
        axis.set_yticks(range(len(shown)), [_short(name) for name in shown])
        axis.invert_yaxis()
        axis.set_xlabel("norm of the update / norm of the weight")
        axis.tick_params(axis="y", length=0)
        return drawn(figure, "updates", f"Ratios of updates to weights of {len(shown)} parameters")


def _by_kind(histograms: Sequence[Histogram]) -> dict[str, list[Histogram]]:
    """Those that have exponents."""
    known = [each for each in histograms if each.exponents]
    return {kind: members for kind in _PLURAL if (members := [each for each in known if each.what == kind])}


def _carried(histograms: Sequence[Histogram]) -> str:
    carried = " or ".join(map(digits, scales(histograms)))
    return f", as the backward pass carries them: times {carried}" if carried else ""


def _stairs(counts: Counter[int]) -> tuple[list[float], list[int]]:
    """Shares of all, and the edges of the exponents they belong to."""
    total = counts.total()
    return [counts[exponent] / total for exponent in _span(counts)], [*_span(counts), max(counts) + 1]


def _span(counts: Iterable[int]) -> range:
    known = list(counts)
    return range(min(known), max(known) + 1)


def _ranges(axis: Axes) -> None:
    for row, of in enumerate((FLOAT16, BFLOAT16)):
        axis.broken_barh([(of.normal, of.largest + 1 - of.normal)], (row - 0.28, 0.56), color=MUTED)
        axis.broken_barh([(of.smallest, of.normal - of.smallest)], (row - 0.28, 0.56), color=MUTED, alpha=0.4)
    axis.set_yticks([0, 1], [FLOAT16.dtype, BFLOAT16.dtype])
    axis.invert_yaxis()
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _zones(axis: Axes) -> None:
    """Shade what float16 does not hold, and what it holds with few digits."""
    below, above = FLOAT16.smallest - 1, FLOAT16.largest + 1
    axis.axvspan(-1000, below, color=BAD, alpha=0.12, linewidth=0)
    axis.axvspan(below, FLOAT16.normal, color=COARSE, alpha=0.14, linewidth=0)
    axis.axvspan(above, 1000, color=BAD, alpha=0.12, linewidth=0)


def _powers(axis: Axes, exponents: Sequence[int]) -> None:
    axis.set_xlim(min(*exponents, FLOAT16.smallest - 4) - 1, max(*exponents, FLOAT16.largest + 2) + 2)
    axis.xaxis.set_major_locator(MultipleLocator(8))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda exponent, _: power(exponent)))


def _box(name: str, exponents: Counter[int]) -> dict[str, object]:
    ordered = sorted(exponents.items())
    reached = list(accumulate(count for _, count in ordered))

    def at(part: float) -> int:
        wanted = part * reached[-1]
        return next(exponent for (exponent, _), count in zip(ordered, reached, strict=True) if count >= wanted)

    return {
        "label": _short(name),
        "whislo": ordered[0][0],
        "q1": at(0.25),
        "med": at(0.5) + 0.5,
        "q3": at(0.75) + 1,
        "whishi": ordered[-1][0] + 1,
    }


def _out_of_range(exponents: Counter[int]) -> float:
    of = shares(exponents, FLOAT16)
    return (of.lost + of.over) / of.numbers


def _short(name: str) -> str:
    text = visible(name)
    return text if len(text) <= _NAME else f"...{text[3 - _NAME :]}"
