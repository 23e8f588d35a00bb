"""Annotated source: rows of code with their operations, without long stretches where nothing ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from markupsafe import Markup
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers.python import PythonLexer

from amplint.findings import Finding
from amplint.records import dataclass
from amplint.reports.context import Sources
from amplint.reports.ran import PASSES, Line, changed, lines, named, share, total_seconds
from amplint.reports.text import visible
from amplint.trace.data import RunData

_CONTEXT = 2
"""Lines shown round those where something ran."""
_SHORT = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Chip:
    """A dtype in the margin: `text` is short, `title` lists the operators, `kind` is a CSS class."""

    text: str
    title: str
    kind: str


@dataclass
class Row:
    """A line of code; `code` is highlighted HTML, `gap` if lines are omitted before it."""

    number: int
    code: Markup
    gap: bool = False
    chips: dict[str, list[Chip]] = field(default_factory=dict)
    time: str = ""
    percent: float = 0.0
    findings: list[Finding] = field(default_factory=list)


@dataclass
class Listing:
    """The rows of one file; `doubt` says why the code may not be what ran, empty otherwise."""

    filename: str
    rows: list[Row]
    doubt: str
    recomputed: bool


def listings(record: RunData, found: Sequence[Finding]) -> list[Listing]:
    """The files with operations or findings, busiest first."""
    places: dict[str, dict[int, Line]] = {}
    for line in sorted(lines(record, found), key=lambda line: -line.operations.total()):
        if line.row:
            places.setdefault(line.filename, {})[line.row] = line
    for finding in found:
        row = finding.span.start.row
        at = places.setdefault(finding.filename, {}).setdefault(row, Line(finding.filename, row))
        if finding not in at.findings:
            at.findings.append(finding)
    sources, seconds, others = Sources(), total_seconds(record), changed(record)
    return [
        _listing(filename, ran, sources.lines(filename), seconds, filename in others)
        for filename, ran in places.items()
    ]


def _listing(filename: str, ran: dict[int, Line], source: list[str], seconds: float, changed: bool) -> Listing:
    code = _highlighted(source)
    rows = []
    for number, gap in _shown(ran, len(code)):
        line = ran.get(number)
        row = Row(number, code[number - 1] if number <= len(code) else Markup(""), gap)
        row.chips = {phase: [] if line is None else list(_chips(line, phase)) for phase in PASSES}
        if line is not None:
            row.findings = line.findings
            row.percent = 100 * line.seconds / seconds if seconds else 0.0
            row.time = share(line.seconds, seconds) if line.seconds else ""
        rows.append(row)
    recomputed = any(row.chips.get("recomputation") for row in rows)
    return Listing(filename, rows, _source_warning(source, changed), recomputed)


def _source_warning(source: list[str], changed: bool) -> str:
    if changed:
        return "This file has changed since it ran; its lines may be others."
    return "" if source else "This file cannot be read here; its lines are shown without their text."


def _shown(ran: dict[int, Line], count: int) -> Iterator[tuple[int, bool]]:
    """The rows to show of `count`, and for each whether rows before it are omitted."""
    wanted = {near for row in ran for near in range(row - _CONTEXT, row + _CONTEXT + 1) if 1 <= near <= count}
    before = 0
    for row in sorted(wanted | set(ran)):
        yield row, row != before + 1
        before = row


def _highlighted(source: list[str]) -> list[Markup]:
    """Each line as HTML; characters that would hide or reorder code are escaped."""
    text = "\n".join(visible(line.expandtabs(4)) for line in source)
    html = highlight(text, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True, classprefix="py-"))
    return [Markup(line) for line in html.split("\n")[: len(source)]]


def _chips(line: Line, phase: str) -> Iterator[Chip]:
    slow = phase == "forward" and line.float32_products
    for dtype, ops in sorted(line.by_dtype(phase).items(), key=lambda item: "->" in item[0]):
        short = "→".join(_SHORT.get(part, part) for part in dtype.split(" -> "))
        kind = "cast" if "→" in short else short if short in _SHORT.values() else "other"
        title = f"{dtype}: {named(ops)}"
        if slow and dtype == "float32":
            yield Chip(f"{short} in region", title, f"{kind} slow")
        else:
            yield Chip(short, title, kind)
