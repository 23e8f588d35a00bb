"""What a check is: a rule that looks at the record of a run instead of a script."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Position, Span
from amplint.rule import Rule
from amplint.trace.record import Operation, Record


class Check(Rule):
    """Base of the checks. The docstring is the page, as it is for every rule."""

    screen = ()

    def findings(self, record: Record) -> Iterator[Finding]:
        """What is wrong in `record`; one finding for each line of the user's code."""
        raise NotImplementedError

    def found(self, filename: str, row: int, message: str, *, advice: str = "") -> Finding:
        """A finding at a line of the user's code."""
        start = Position(max(row, 1), 1)
        place = Span(start, start)
        return Finding(self.code, self.name, self.severity, message, filename, place, self.reason, advice)


def plain(operation: Operation) -> str:
    """The operation's name without the mark of its in-place form."""
    return operation.op.rstrip("_") if not operation.op.startswith("__") else operation.op


def by_line(counts: Iterator[tuple[Operation, int]]) -> dict[tuple[str, int], list[tuple[Operation, int]]]:
    """The operations of each line of the user's code, the most frequent first; those without a line are left out."""
    lines: dict[tuple[str, int], list[tuple[Operation, int]]] = {}
    for operation, count in counts:
        if operation.row:
            lines.setdefault((operation.filename, operation.row), []).append((operation, count))
    return {line: sorted(kinds, key=lambda kind: -kind[1]) for line, kinds in lines.items()}


def within(operation: Operation) -> str:
    """` (model.head)`, or nothing outside of modules."""
    return f" ({operation.module})" if operation.module else ""


def times(count: int) -> str:
    """`once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"
