"""The comparison with float32 for the terminal: lines, modules and gradients with the largest errors."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.reports.context import Sources
from amplint.reports.text import columns, cut, display_path, visible, wrap
from amplint.trace.compared import Comparison, LineDrift, TensorDrift
from amplint.trace.data import RunData

_LINES, _TENSORS = 8, 3
_ROOM = 24
"""Columns that a line of code needs beside the rest; where it has less it goes below."""


def against_float32(record: RunData, width: int) -> Iterator[str]:
    """The section of the summary; empty if the run was not compared."""
    comparison = record.comparison
    if comparison is None:
        return
    steps = f"{comparison.steps} {'step' if comparison.steps == 1 else 'steps'}"
    rounding = f"rounding explains {comparison.tolerance:.2g}"
    yield ""
    yield from wrap(f"against float32, {steps}, what lines add to the relative error ({rounding}):", width, "  ", "")
    sources = Sources()
    shown = [drift for drift in comparison.lines if drift.kind or drift.added or drift.coarse][:_LINES]
    rows = [(_place(drift), _source(sources, drift), _adds(drift)) for drift in shown]
    places = max((columns(place) for place, _, _ in rows), default=0)
    marks = max((columns(mark) for _, _, mark in rows), default=0)
    for place, source, mark in rows:
        room = width - places - marks - 6
        if room < _ROOM:
            yield f"  {place:<{places}}  {mark}"
            yield f"      {cut(source, width - 6)}".rstrip()
        else:
            text = cut(source, room)
            yield f"  {place:<{places}}  {text}{' ' * (room - columns(text))}  {mark}".rstrip()
    for part in _tensors(comparison):
        yield from wrap(part, width, "    ", "  ")


def _tensors(comparison: Comparison) -> Iterator[str]:
    if comparison.first:
        yield f"the first module to be off by more: {visible(comparison.first)}"
    for what in ("output", "gradient"):
        worst = [drift for drift in comparison.tensors if drift.what == what and drift.error != 0][:_TENSORS]
        if worst:
            yield f"{what}s that are off most: {', '.join(map(_tensor, worst))}"
    if comparison.refused:
        yield f"not compared, and taken for right: {', '.join(comparison.refused)}"


def _adds(drift: LineDrift) -> str:
    number = error_text(None, drift.kind) if drift.kind else f"+{error_text(drift.added)}"
    instead = " instead of float32" if drift.coarse and not drift.kind else ""
    backward = " backward" * (drift.phase == "backward" and not drift.op.endswith("_backward"))
    return f"{number}  {drift.op}{backward}, {drift.dtype}{instead}"


def _tensor(drift: TensorDrift) -> str:
    return f"{visible(drift.name)} {error_text(drift.error)}"


def error_text(error: float | None, kind: str = "") -> str:
    """`0.013`, or `inf` or `nan`."""
    return {"inf": "inf", "nan": "NaN", "": "inf or NaN"}[kind] if error is None else f"{error:.2g}"


def _place(drift: LineDrift) -> str:
    filename, row = _code(drift)
    return f"{visible(display_path(filename))}:{row}"


def _code(drift: LineDrift) -> tuple[str, int]:
    """The line to look at: the library's, if the user's code called one."""
    return (drift.library, drift.library_row) if drift.library_row else (drift.filename, drift.row)


def _source(sources: Sources, drift: LineDrift) -> str:
    return visible((sources.line(*_code(drift)) or "").strip())
