"""Operations by line of the user's code, lines that need attention first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from amplint.findings import Finding
from amplint.records import dataclass
from amplint.source.files import read
from amplint.trace.data import Operation, RunData, digest
from amplint.trace.kinds import computed_in, computes, is_float32_product, is_own_cast

PASSES = ("forward", "backward", "recomputation")
"""The phases that belong to lines of a model; what an optimizer does is its own."""


@dataclass
class Line:
    """A line of code with its computations; row 0 stands for operations of no line.

    `seconds` is the time of its operations, including those that compute nothing.
    """

    filename: str
    row: int
    operations: Counter[Operation] = field(default_factory=Counter)
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    @property
    def float32_products(self) -> int:
        """The number of products that ran in float32 inside of a region."""
        return self._count(is_float32_product)

    def by_dtype(self, phase: str) -> dict[str, Counter[str]]:
        """Dtype (`float16`, or `float32 -> float16` for casts) to operators with their counts, most frequent first."""
        counts = Counter[tuple[str, str]]()
        for operation, count in self.operations.items():
            if operation.phase == phase:
                counts[computed_in(operation), operation.op] += count
        groups: dict[str, Counter[str]] = {}
        for (dtype, op), count in counts.most_common():
            groups.setdefault(dtype, Counter())[op] += count
        return groups

    def order(self) -> tuple[object, ...]:
        """The sort key: findings, float32 products in a region, explicit casts, number of operations."""
        severity = max((found.severity for found in self.findings), default=0)
        casts = self._count(is_own_cast)
        busy = self.operations.total()
        return -severity, -self.float32_products, -casts, -self.seconds, -busy, self.filename, self.row

    def _count(self, is_one: Callable[[Operation], bool]) -> int:
        return sum(count for operation, count in self.operations.items() if is_one(operation))


def lines(record: RunData, found: Iterable[Finding]) -> list[Line]:
    """The lines with computations in the forward or backward pass, worst first."""
    places: dict[tuple[str, int], Line] = {}
    for operation, count in record.operations.items():
        if operation.phase not in PASSES:
            continue
        place = operation.filename, operation.row
        line = places.setdefault(place, Line(*place))
        line.seconds += record.seconds.get(operation, 0.0)
        if computes(operation):
            line.operations[operation] += count
    for finding in found:
        place = finding.filename, finding.span.start.row
        if place in places:
            places[place].findings.append(finding)
    return sorted((line for line in places.values() if line.operations), key=Line.order)


def changed(record: RunData) -> set[str]:
    """The source files that changed since the run, whose lines may differ."""
    return {name for name, before in record.sources.items() if before and _digest(name) not in (before, "")}


def _digest(filename: str) -> str:
    try:
        return digest(read(filename))
    except OSError:
        return ""


def share(part: float, whole: float) -> str:
    """`34 %`; small nonzero shares are `< 0.01 %`, and a share of nothing is `0 %`."""
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"


def scale_text(scale: float) -> str:
    """A loss scale: `1048576`, without an exponent up to ten digits."""
    return f"{scale:.10g}"


def named(ops: Counter[str]) -> str:
    """`mm x3, add`."""
    return ", ".join(f"{op} x{count}" if count > 1 else op for op, count in ops.items())


def total_seconds(record: RunData) -> float:
    """The sum of all measured times."""
    return sum(record.seconds.values())


def codes(found: Sequence[Finding]) -> str:
    """`AMP801, AMP810`."""
    return ", ".join(dict.fromkeys(finding.code for finding in found))
