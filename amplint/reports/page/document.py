"""The page itself: everything in one text, with no script but its own and nothing from the network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from amplint import __version__
from amplint.findings import Finding
from amplint.reports.drift import amount
from amplint.reports.page import figures, tables
from amplint.reports.page.listing import listings
from amplint.reports.ran import digits, share, total_seconds
from amplint.reports.text import from_here, visible
from amplint.trace.absence import absence
from amplint.trace.record import PHASES, Record

_FOLDER = Path(__file__).parent


def page(record: Record, found: Sequence[Finding]) -> str:
    """`record` and what the checks `found` in it as an HTML document.

    The same record gives the same text, as long as the source files that it names, which are read, stay as they are.
    """
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    seconds = total_seconds(record)
    files, updates = listings(record, found), tables.updates(record)
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(place=_place, path=from_here)
    return environment.get_template("page.html.jinja").render(
        version=__version__,
        style=Markup((_FOLDER / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=digest,
        record=record,
        absence=absence(record),
        findings=found,
        files=files,
        anchors={
            (file.filename, row.number): f"l{index}-{row.number}"
            for index, file in enumerate(files)
            for row in file.rows
        },
        timed=seconds > 0,
        phases=[phase for phase in PHASES if any(operation.phase == phase for operation in record.operations)],
        operations=tables.operations(record, seconds),
        products=tables.products(record),
        nonfinite=tables.origins(record),
        compared=record.comparison,
        drifts=tables.drifts(record),
        strays=tables.strays(record),
        spreads=tables.spreads(record),
        losses=tables.losses(record),
        lost_in_half=tables.lost_in_half(record),
        steps=tables.scaler_steps(record),
        held=tables.held(record),
        updates=updates,
        plots={
            "exponents": figures.exponents(record.histograms),
            "tensors": figures.tensors(record.histograms),
            "scale": figures.loss_scale(record.scaler_steps),
            "updates": figures.updates({row.name: row.ratios for row in updates.rows}),
        },
        share=share,
        digits=digits,
        amount=amount,
    )


def _shown(value: object) -> object:
    """Text of the user's without characters that hide or reorder what stands around them."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _place(filename: str, row: int) -> str:
    return f"{from_here(filename)}:{row}" if row else ""
