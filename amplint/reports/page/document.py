"""The page as one text, with no external script and no network access."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from amplint import __version__
from amplint.findings import Finding
from amplint.reports.drift import error_text
from amplint.reports.modules import rows, tree
from amplint.reports.page import figures, tables
from amplint.reports.page.curves import curves
from amplint.reports.page.labels import labels
from amplint.reports.page.listing import Listing, listings
from amplint.reports.page.tiles import tiles
from amplint.reports.ran import scale_text, share, total_seconds
from amplint.reports.text import display_path, visible
from amplint.reports.verdict import verdict
from amplint.trace.data import PHASES, Divergence, HalfLoss, NonFinite, Operation, RunData, ScalerStep, Series

_FOLDER = Path(__file__).parent
_MODULES = 200
_ENDS = re.compile(r"[/_](?=\w)|\.(?=\w)(?!\w+:\d)")


def page(record: RunData, found: Sequence[Finding]) -> str:
    """`record` and its findings as an HTML document.

    Deterministic for a record, as long as the source files that it names, which are read, do not change.
    """
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    seconds = total_seconds(record)
    files, updates = listings(record, found), tables.updates(record)
    names = labels(_filenames(record, found))

    def name(filename: str) -> str:
        return names.get(filename) or display_path(filename)

    def place(filename: str, row: int) -> str:
        return f"{name(filename)}:{row}" if row else "elsewhere"

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        place=lambda filename, row: _breakable(place(filename, row)) if row else "", path=name, breakable=_breakable
    )
    return environment.get_template("page.html.jinja").render(
        version=__version__,
        style=Markup((_FOLDER / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=digest,
        record=record,
        title=_title(record, files, names),
        command=shlex.join(_command(record, names)),
        verdict=verdict(record, found, place),
        tiles=tiles(record, found, place),
        findings=found,
        files=files,
        anchors={
            (file.filename, row.number): f"l{index}-{row.number}"
            for index, file in enumerate(files)
            for row in file.rows
        },
        timed=seconds > 0,
        seconds=seconds,
        phases=[phase for phase in PHASES if any(operation.phase == phase for operation in record.operations)],
        modules=rows(tree(record), _MODULES),
        operations=tables.operations(record, seconds),
        products=tables.products(record),
        nonfinite=tables.origins(record),
        compared=record.comparison,
        drifts=tables.drifts(record),
        strays=tables.strays(record),
        spreads=tables.spreads(record),
        undrawn=tables.undrawn(record),
        losses=tables.losses(record),
        lost_in_half=tables.lost_in_half(record),
        steps=tables.scaler_steps(record),
        float8=tables.float8(record),
        held=tables.held(record),
        updates=updates,
        plots={
            "exponents": figures.exponents(record.histograms),
            "tensors": figures.tensors(record.histograms),
            "curves": curves(record, place),
            "updates": figures.updates({row.name: row.ratios for row in updates.rows}),
        },
        share=share,
        digits=scale_text,
        amount=error_text,
    )


def _filenames(record: RunData, found: Sequence[Finding]) -> list[str]:
    """The files that the page names, in the record's order."""
    lists: list[Sequence[Operation | NonFinite | HalfLoss | Divergence | ScalerStep | Series]] = [
        *(list(record.operations), record.nonfinite, record.losses, record.divergences),
        *(record.scaler_steps, record.series),
    ]
    noted = [note.filename or "" for one in found for note in one.notes]
    drifts = [drift.filename for drift in record.comparison.lines] if record.comparison is not None else []
    libraries = [one.library for some in (list(record.operations), record.nonfinite, record.losses) for one in some]
    known = [one.filename for some in lists for one in some] + [one.filename for one in found] + noted + drifts
    return list(dict.fromkeys(known + libraries))


def _command(record: RunData, names: Mapping[str, str]) -> list[str]:
    return [
        names.get(os.path.abspath(word), word) if number == 0 else word for number, word in enumerate(record.command)
    ]


def _title(record: RunData, files: Sequence[Listing], names: Mapping[str, str]) -> str:
    """The script; for a watched block, the file in which most operations ran."""
    command = _command(record, names)
    if command:
        return command[1] if command[0] == "-m" and len(command) > 1 else command[0]
    return names.get(files[0].filename, files[0].filename) if files else "a block that was watched"


def _breakable(text: str) -> Markup:
    """A name with line break opportunities between its parts."""
    return Markup(_ENDS.sub(r"\g<0><wbr>", str(escape(visible(text)))))


def _shown(value: object) -> object:
    """User text without characters that hide or reorder their surroundings."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
