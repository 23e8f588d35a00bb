"""Matplotlib figures as inline SVG, in the page's colours."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
from markupsafe import Markup, escape
from matplotlib.figure import Figure

_NAMES = ("ink", "muted", "rule", "bad", "coarse", "fill", "line")
INK, MUTED, RULE, BAD, COARSE, FILL, LINE = _STAND_INS = [f"#0{number}0{number}0{number}" for number in range(1, 8)]
"""Colours that no plot shows: `drawn` puts the variables of the style sheet, by these names, in their place."""
WIDTH_IN = 4.6
"""That of a phone's screen; on wider ones plots stand beside each other."""

_STYLE = {
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "figure.facecolor": "none",
    "font.family": "sans-serif",
    "font.size": 8.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "amplint",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.color": RULE,
    "ytick.labelcolor": MUTED,
}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@contextmanager
def style() -> Iterator[None]:
    """Use the page's style, ignoring the user's matplotlib configuration."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)  # type: ignore[arg-type]
        yield


def power(exponent: float) -> str:
    """`2⁻²⁴`."""
    return f"2{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def drawn(figure: Figure, name: str, label: str) -> Markup:
    """`figure` as an SVG element; `name` prefixes its identifiers, `label` is its accessible name."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = text.getvalue()
    svg = svg[svg.index("<svg ") :]
    numbers: dict[str, int] = {}
    svg = re.sub(
        r'(\bid="|href="#|url\(#)([^")]+)',
        lambda found: f"{found[1]}{name}-{numbers.setdefault(found[2], len(numbers))}",
        svg,
    )
    (box,) = re.findall(r'\A<svg [^>]*?(viewBox="[^"]*")', svg)
    svg = f'<svg {box} role="img" aria-label="{escape(label)}">' + svg[svg.index(">") + 1 :]
    for colour, variable in zip(_STAND_INS, _NAMES, strict=True):
        svg = svg.replace(colour, f"var(--{variable})")
    return Markup(svg)
