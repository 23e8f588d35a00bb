"""The ranks of a record and the differences of their operation counts, for the terminal."""

from __future__ import annotations

from amplint.reports.text import display_path, visible
from amplint.trace.data import RunData

_LINES = 12


def rank_suffix(record: RunData) -> str:
    """`, rank 0 of 2` or `, 2 ranks`; empty for a single rank."""
    if record.ranks == 1:
        return ""
    return f", {record.ranks} ranks" if record.rank is None else f", rank {record.rank} of {record.ranks}"


def unequal_lines_text(record: RunData) -> str:
    """Some of the lines that ranks ran unequally often; empty if there are none."""
    counts = [difference for difference in record.divergences if difference.kind == "count"]
    if not counts:
        return ""
    shown = [
        f"  {visible(display_path(count.filename))}:{count.row}  {count.phase}: "
        + ", ".join(f"{visible(what)} on rank {rank}" for rank, what in count.did)
        for count in counts[:_LINES]
    ]
    more = [f"  ... and {len(counts) - _LINES} more"] if len(counts) > _LINES else []
    return "\n".join(["", "operations that ranks ran unequally often:", *shown, *more]) + "\n"
