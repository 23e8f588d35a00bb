"""The page's plots: exponents against format ranges, and weight updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator, PercentFormatter

from amplint.reports.exponents import by_name, rescaled, scales, shares, summed
from amplint.reports.page.choice import worst_items
from amplint.reports.page.plots import BAD, COARSE, FILL, INK, LINE, MUTED, WIDTH_IN, drawn, power, style
from amplint.reports.page.tables import BFLOAT16, FLOAT16
from amplint.reports.ran import scale_text
from amplint.reports.text import visible
from amplint.trace.data import Histogram

_ROWS = 24
"""Tensors and parameters in one plot; those with most out of float16's range, or with the largest updates."""
_ROW_IN = 0.31
_NAME = 60
"""Characters of a name in a plot."""
_PLURAL = {"activation": "Activations", "weight": "Weights", "gradient": "Gradients"}


def exponents(histograms: Sequence[Histogram]) -> list[Markup]:
    """The distribution of exponents by kind of tensor; gradients also under another loss scale."""
    kinds = _by_kind(histograms)
    every = summed(one for members in kinds.values() for one in members)
    ends = [*every, *rescaled(kinds.get("gradient", []))[0]]
    return [_spread(kind, members, ends) for kind, members in kinds.items()]


def _spread(kind: str, members: Sequence[Histogram], ends: Sequence[int]) -> Markup:
    with style():
        figure = Figure(figsize=(WIDTH_IN, 2.3), layout="tight")
        ranges, axis = figure.subplots(2, sharex=True, height_ratios=(0.25, 1.0))
        _ranges(ranges)
        axis.stairs(*_stairs(summed(members)), fill=True, color=FILL)
        if kind == "gradient":
            moved, scale = rescaled(members)
            label = "without a loss scale" if scale == 1.0 else f"with a loss scale of {scale_text(scale)}"
            axis.stairs(*_stairs(moved), color=LINE, linestyle=(0, (3, 2)), label=label)
            axis.legend(loc="upper left", frameon=False, labelcolor=INK, handlelength=1.4)
        _zones(axis)
        ranges.set_title(f"{_PLURAL[kind]}{_carried(members)}", pad=4)
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axis.yaxis.set_major_locator(MaxNLocator(3))
        axis.margins(y=0.25)
        _powers(axis, ends)
        axis.set_xlabel("magnitude")
        return drawn(figure, f"exponents-{kind}", f"Histogram of the exponents of {_PLURAL[kind].lower()}")


def tensors(histograms: Sequence[Histogram]) -> dict[str, Markup]:
    """A box plot of exponents for each kind of tensors; of many tensors the worst for float16."""
    return {kind: _boxes(kind, by_name(members)) for kind, members in _by_kind(histograms).items()}


def _boxes(kind: str, names: dict[str, Counter[int]]) -> Markup:
    shown = worst_items(list(names), _ROWS, lambda name: _out_of_range(names[name])).rows
    with style():
        figure = Figure(figsize=(WIDTH_IN, 0.7 + _ROW_IN * len(shown)), layout="tight")
        axis = figure.subplots()
        line = {"color": INK, "linewidth": 0.8}
        axis.bxp(
            [_box(names[name]) for name in shown],
            positions=range(len(shown)),
            orientation="horizontal",
            showfliers=False,
            patch_artist=True,
            widths=0.32,
            boxprops={"facecolor": FILL, "edgecolor": INK, "linewidth": 0.8},
            whiskerprops=line,
            capprops=line,
            medianprops={"color": INK, "linewidth": 1.6},
        )
        _zones(axis)
        _powers(axis, [exponent for name in shown for exponent in names[name]])
        _named(axis, shown)
        axis.set_title(_PLURAL[kind], pad=4)
        return drawn(figure, f"tensors-{kind}", f"Ranges of the exponents of {len(shown)} {_PLURAL[kind].lower()}")


def updates(ratios: dict[str, list[float]]) -> Markup | None:
    """The norm of each parameter's update relative to the parameter's, one mark per step."""
    known = {name: [ratio for ratio in members if ratio > 0] for name, members in ratios.items()}
    shown = worst_items([name for name in known if known[name]], _ROWS, lambda name: max(known[name])).rows
    points = [(ratio, row) for row, name in enumerate(shown) for ratio in known[name]]
    if not points:
        return None
    with style():
        figure = Figure(figsize=(WIDTH_IN, 0.7 + _ROW_IN * len(shown)), layout="tight")
        axis = figure.subplots()
        axis.plot([ratio for ratio, _ in points], [row for _, row in points], "|", color=LINE, markersize=7)
        axis.set_xscale("log")
        axis.margins(x=0.1)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}"))
        axis.minorticks_off()
        _named(axis, shown)
        axis.set_xlabel("norm of the update / norm of the weight")
        return drawn(figure, "updates", f"Ratios of updates to weights of {len(shown)} parameters")


def _named(axis: Axes, names: Sequence[str]) -> None:
    """Put the name of each row above it, so that it takes no width from the plot."""
    axis.set_ylim(len(names) - 0.5, -0.75)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    for row, name in enumerate(names):
        axis.text(0.0, row - 0.28, short(name), transform=axis.get_yaxis_transform(), va="bottom", fontsize=7.5)


def _by_kind(histograms: Sequence[Histogram]) -> dict[str, list[Histogram]]:
    """The kinds of tensors that have exponents."""
    known = [each for each in histograms if each.exponents]
    return {kind: members for kind in _PLURAL if (members := [each for each in known if each.what == kind])}


def _carried(histograms: Sequence[Histogram]) -> str:
    carried = scales(histograms)
    if not carried:
        return ""
    last = f" to {scale_text(carried[-1])}" if len(carried) > 1 else ""
    return f" as carried, times {scale_text(carried[0])}{last}"


def _stairs(counts: Counter[int]) -> tuple[list[float], list[int]]:
    """Shares of the total, and the edges of their exponents."""
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
    """Shade the ranges that float16 cannot represent, and its subnormal range."""
    below, above = FLOAT16.smallest - 1, FLOAT16.largest + 1
    axis.axvspan(-1000, below, color=BAD, alpha=0.12, linewidth=0)
    axis.axvspan(below, FLOAT16.normal, color=COARSE, alpha=0.14, linewidth=0)
    axis.axvspan(above, 1000, color=BAD, alpha=0.12, linewidth=0)


def _powers(axis: Axes, exponents: Sequence[int]) -> None:
    axis.set_xlim(min(*exponents, FLOAT16.smallest - 4) - 1, max(*exponents, FLOAT16.largest + 2) + 2)
    axis.xaxis.set_major_locator(MultipleLocator(8))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda exponent, _: power(exponent)))


def _box(exponents: Counter[int]) -> dict[str, object]:
    ordered = sorted(exponents.items())
    reached = list(accumulate(count for _, count in ordered))

    def at(part: float) -> int:
        wanted = part * reached[-1]
        return next(exponent for (exponent, _), count in zip(ordered, reached, strict=True) if count >= wanted)

    return {
        "whislo": ordered[0][0],
        "q1": at(0.25),
        "med": at(0.5) + 0.5,
        "q3": at(0.75) + 1,
        "whishi": ordered[-1][0] + 1,
    }


def _out_of_range(exponents: Counter[int]) -> float:
    of = shares(exponents, FLOAT16)
    return (of.lost + of.over) / of.numbers


def short(name: str) -> str:
    """A name for a plot, the end of it if it is long."""
    text = visible(name)
    return text if len(text) <= _NAME else f"...{text[3 - _NAME :]}"
