"""Checks: rules that examine the record of a run instead of a script."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Note, Position, Span
from amplint.rule import Rule
from amplint.trace.compared import LineDrift
from amplint.trace.data import HalfLoss, NonFinite, Observation, Operation, RunData
from amplint.trace.packages import package_path

Place = tuple[str, int, str, int]
"""A line of the user's code, and one of a library that it has called, ("", 0) where that is PyTorch."""


class Check(Rule):
    """Base of the checks. The docstring is the documentation page, as for every rule."""

    screen = ()

    def findings(self, record: RunData) -> Iterator[Finding]:
        """The findings in `record`, one per line of the user's code."""
        raise NotImplementedError

    def found(self, filename: str, row: int, message: str, *, advice: str = "") -> Finding:
        """A finding at a line of the user's code."""
        return self.found_at((filename, row, "", 0), message, advice=advice)

    def found_at(self, place: Place, message: str, *, advice: str = "") -> Finding:
        """A finding at a line of the user's code, with the library's line that it called, if any."""
        filename, row, library, library_row = place
        notes = (Note("the line of the library", _start_of(library_row), library),) if library_row else ()
        span = _start_of(row)
        return Finding(self.code, self.name, self.severity, message, filename, span, self.reason, advice, notes=notes)


class ObservationCheck(Check):
    """Base of the checks of observations at lines."""

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding per line, for the first observation there that has a message."""
        seen: set[tuple[str, int]] = set()
        for one in record.observations:
            line = one.filename, one.row
            if one.row and line not in seen and (message := self.message(one)):
                seen.add(line)
                yield self.found(*line, message, advice=self.advice(one))

    def message(self, one: Observation) -> str:
        """The problem; empty if there is none."""
        raise NotImplementedError

    def advice(self, one: Observation) -> str:
        """What to do instead."""
        raise NotImplementedError


def _start_of(row: int) -> Span:
    start = Position(max(row, 1), 1)
    return Span(start, start)


def plain(operation: Operation) -> str:
    """The operation's name without the underscore of its in-place form."""
    return operation.op.rstrip("_") if not operation.op.startswith("__") else operation.op


def by_line(counts: Iterator[tuple[Operation, int]]) -> dict[Place, list[tuple[Operation, int]]]:
    """The operations of each line, the most frequent first, without those that have no line of the user's code."""
    lines: dict[Place, list[tuple[Operation, int]]] = {}
    for operation, count in counts:
        if operation.row:
            lines.setdefault(place(operation), []).append((operation, count))
    return {line: sorted(kinds, key=lambda kind: -kind[1]) for line, kinds in lines.items()}


def place(one: Operation | NonFinite | HalfLoss | LineDrift) -> Place:
    """The line of the user's code, and the library's line."""
    return one.filename, one.row, one.library, one.library_row


def through(one: Operation | NonFinite | HalfLoss | LineDrift) -> str:
    """` (model.head, in timm/layers/mlp.py:42)` if a library was called, else empty."""
    return within(one) if one.library_row else ""


def within(one: Operation | NonFinite | HalfLoss | LineDrift) -> str:
    """As `through`, but ` (model.head)` if no library was called, and empty without either."""
    parts = [one.module, f"in {package_path(one.library) or one.library}:{one.library_row}" if one.library_row else ""]
    text = ", ".join(filter(None, parts))
    return f" ({text})" if text else ""


def times(count: int) -> str:
    """`once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"
