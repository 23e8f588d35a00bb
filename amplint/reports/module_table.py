"""The table of a run's modules for the terminal: dtypes of computations, products in half, time."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.reports.modules import Node, Row, rows, tree
from amplint.reports.ran import share, total_seconds
from amplint.reports.text import columns, cut, visible
from amplint.torchlib.names import HALF_DTYPES
from amplint.trace.data import RunData
from amplint.trace.kinds import is_float8

_ROWS = 14
_OUTSIDE = "outside of modules"
_GAP = "  "


def by_module(record: RunData, width: int) -> Iterator[str]:
    """The section of the summary; empty if no module contains another."""
    shown = rows(tree(record), _ROWS)
    if not any(row.depth for row in shown):
        return
    seconds = total_seconds(record)
    head = ("module", "computes in", "products in half", "time" if seconds else "")
    table = [head, *(_cells(row, seconds) for row in shown)]
    widths = [max(columns(cells[column]) for cells in table) for column in range(4)]
    room = width - sum(widths[2:]) - 4 * len(_GAP)
    widths[1] = max(min(widths[1], room - widths[0]), len(head[1]), min(widths[1], room // 2))
    widths[0] = max(min(widths[0], room - widths[1]), len(_OUTSIDE))
    yield from ("", "module by module:")
    for name, dtypes, products, time in table:
        cells = (
            _padded(cut(name, widths[0]), widths[0]),
            _padded(cut(dtypes, widths[1]), widths[1]),
            products.rjust(widths[2]),
            time.rjust(widths[3]),
        )
        yield (_GAP + _GAP.join(cells)).rstrip()


def _cells(row: Row, seconds: float) -> tuple[str, str, str, str]:
    node = row.node
    name = visible(node.name) or _OUTSIDE
    products = f"{node.in_half} of {node.products}" if node.products else ""
    time = share(node.seconds, seconds) if node.seconds else ""
    return _GAP * row.depth + name, ", ".join(sorted(node.dtypes, key=lambda dtype: _rank(node, dtype))), products, time


def _rank(node: Node, dtype: str) -> tuple[bool, bool, int]:
    """The sort key of a dtype: low precision first, then by number of operations."""
    return not is_float8(dtype), dtype not in HALF_DTYPES, -node.dtypes[dtype]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))
