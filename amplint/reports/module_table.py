"""The table of a run's modules for the terminal: the dtypes of what they compute, products in half, time."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.reports.modules import Row, rows, tree
from amplint.reports.ran import share, total_seconds
from amplint.reports.text import columns, visible
from amplint.trace.record import Record

_ROWS = 14
_OUTSIDE = "outside of modules"
_GAP = "  "


def by_module(record: Record, width: int) -> Iterator[str]:
    """The section of the summary; nothing where no module holds another."""
    shown = rows(tree(record), _ROWS)
    if not any(row.depth for row in shown):
        return
    seconds = total_seconds(record)
    head = ("module", "computes in", "products in half", "time" if seconds else "")
    table = [head, *(_cells(row, seconds) for row in shown)]
    widths = [max(columns(cells[column]) for cells in table) for column in range(4)]
    widths[0] = max(min(widths[0], width - 2 - sum(widths[1:]) - 3 * len(_GAP)), len(_OUTSIDE))
    yield from ("", "module by module:")
    for name, dtypes, products, time in table:
        if columns(name) > widths[0]:
            name = name[: widths[0] - 4] + " ..."
        cells = (_padded(name, widths[0]), _padded(dtypes, widths[1]), products.rjust(widths[2]), time.rjust(widths[3]))
        yield (_GAP + _GAP.join(cells)).rstrip()


def _cells(row: Row, seconds: float) -> tuple[str, str, str, str]:
    node = row.node
    name = visible(node.name) or _OUTSIDE
    products = f"{node.in_half} of {node.products}" if node.products else ""
    time = share(node.seconds, seconds) if node.seconds else ""
    return _GAP * row.depth + name, ", ".join(dtype for dtype, _ in node.dtypes.most_common()), products, time


def _padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))
