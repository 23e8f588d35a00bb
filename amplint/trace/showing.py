"""The reports of a record in Python: a text, a page, and a notebook cell."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from amplint.trace.findings import findings

if TYPE_CHECKING:
    from amplint.trace.data import RunData


def text(record: RunData, width: int) -> str:
    """The output of `amplint trace` on a terminal of `width` columns, findings in short."""
    from amplint.reports.ranks import unequal_lines_text
    from amplint.reports.text import display_path, one_line, wrap
    from amplint.reports.trace import summary

    found = findings(record)
    report = summary(record, found, width) + unequal_lines_text(record)
    for one in found:
        line = f"{display_path(one.filename)}:{one.span.start.row}: {one.code} {one.message}"
        report += "\n" + "\n".join(wrap(one_line(line), width, "  ", ""))
    return report.rstrip("\n") + "\n"


def page(record: RunData) -> str:
    """The page of `amplint trace --html`. Raises ImportError without its dependencies."""
    try:
        from amplint.reports.page import document
    except ImportError as failure:
        raise ImportError('the page of a run needs more: pip install "amplint[report]"') from failure
    return document.page(record, findings(record))


def cell(record: RunData) -> str:
    """HTML for a notebook: the text, with the run's text escaped."""
    return f"<pre>{html.escape(text(record, 100))}</pre>"
