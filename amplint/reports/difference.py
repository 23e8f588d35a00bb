"""Differences between two runs of a script, line by line: the effect of a fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import PurePath

from amplint.findings import Finding
from amplint.records import dataclass
from amplint.reports.context import Sources
from amplint.reports.ran import PASSES, Line, lines, scale_text
from amplint.reports.text import visible, wrap
from amplint.reports.trace import place
from amplint.reports.verdict import steps, verdict
from amplint.trace.data import NonFinite, RunData

_LINES = 40
Row = tuple[str, int]


@dataclass(frozen=True)
class Run:
    """A `record` and its findings."""

    record: RunData
    found: Sequence[Finding]


def difference(before: Run, after: Run, width: int = 80) -> str:
    """The differences, in lines of at most `width` columns where possible."""
    pairs = _pairs(before.record, after.record)
    lines = [
        *_findings(before, after, pairs, width),
        *_dtypes(before, after, pairs),
        *_steps(before.record, after.record),
        *_origins(before.record, after.record, pairs, width),
        *_held(before.record, after.record),
    ]
    lines = [*_heads(before, after, width), *(lines or ["", "nothing is different"])]
    return "\n".join(map(visible, lines)) + "\n"


def _heads(before: Run, after: Run, width: int) -> Iterator[str]:
    for name, run in (("before", before), ("after", after)):
        record = run.record
        count = f"{record.steps or 'no'} step{'' if record.steps == 1 else 's'} on {record.device or 'no device'}"
        yield from wrap(f"{name}: {count}: {verdict(record, run.found, place).text}", width, "  ", "")


def _findings(before: Run, after: Run, pairs: dict[Row, Row], width: int) -> Iterator[str]:
    moved = Counter((one.code, *_moved(_row(one), pairs)) for one in before.found)
    there = Counter((one.code, *_row(one)) for one in after.found)
    gone = [one for one in before.found if (one.code, *_moved(_row(one), pairs)) not in there]
    come = [one for one in after.found if (one.code, *_row(one)) not in moved]
    same = len(after.found) - len(come)
    if gone or come:
        yield from ("", "findings:")
    for sign, found in (("-", gone), ("+", come)):
        for one in found:
            yield from wrap(f"{place(*_row(one))}: {one.code} {one.message}", width, "    ", f"  {sign} ")
    if (gone or come) and same:
        yield f"  {same} {'is' if same == 1 else 'are'} in both"


def _dtypes(before: Run, after: Run, pairs: dict[Row, Row]) -> Iterator[str]:
    old = {(line.filename, line.row): _computed(line) for line in lines(before.record, ()) if line.row}
    new = {(line.filename, line.row): _computed(line) for line in lines(after.record, ()) if line.row}
    back = {other: row for row, other in pairs.items()}
    changed = [row for row in new if row in back and old.get(back[row], {}) != new[row]]
    sources = Sources()
    if changed:
        yield from ("", "lines that compute in other dtypes:")
    for row in sorted(changed)[:_LINES]:
        was = back[row]
        name = place(*was) if was[1] == row[1] else f"{place(*was)} -> {row[1]}"
        yield f"  {name}  {(sources.line(*row) or '').strip()}".rstrip()
        yield from _phases(old.get(was, {}), new[row])
    if len(changed) > _LINES:
        yield f"  ... and {len(changed) - _LINES} more lines"
    for said, rows, known in (("before", old.keys() - pairs.keys(), old), ("after", new.keys() - back.keys(), new)):
        if rows:
            yield from ("", f"lines that ran {said} only:")
        for row in sorted(rows)[:_LINES]:
            phases = "; ".join(f"{phase} {dtypes}" for phase, dtypes in known[row].items())
            yield f"  {place(*row)}  {phases}"
        if len(rows) > _LINES:
            yield f"  ... and {len(rows) - _LINES} more lines"


def _phases(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    for phase in PASSES:
        if old.get(phase) != new.get(phase):
            yield f"      {phase:<8}  {old.get(phase, 'nothing')}  ->  {new.get(phase, 'nothing')}"


def _steps(before: RunData, after: RunData) -> Iterator[str]:
    was, now = steps(before), steps(after)
    rows = [
        ("skipped", f"{was.skipped} of {was.seen}", f"{now.skipped} of {now.seen}"),
        ("loss scale", _scales(before), _scales(after)),
        ("last loss", _last_loss(before), _last_loss(after)),
    ]
    lines = [f"  {what}: {old} -> {new}" for what, old, new in rows if old != new]
    if lines:
        yield from ("", "steps:", *lines)


def _scales(record: RunData) -> str:
    scales = sorted({step.scale for step in record.scaler_steps})
    if not scales:
        return "none"
    return scale_text(scales[0]) if len(scales) == 1 else f"{scale_text(scales[0])} to {scale_text(scales[-1])}"


def _last_loss(record: RunData) -> str:
    for series in record.series:
        if series.what == "loss" and series.values:
            last = series.values[-1]
            return f"{last:.4g}" if last is not None else "inf or NaN"
    return "unknown"


def _origins(before: RunData, after: RunData, pairs: dict[Row, Row], width: int) -> Iterator[str]:
    old = {(*_moved((one.filename, one.row), pairs), one.op, one.phase, one.kind): one for one in before.nonfinite}
    new = {(one.filename, one.row, one.op, one.phase, one.kind): one for one in after.nonfinite}
    gone = [one for key, one in old.items() if key not in new]
    come = [one for key, one in new.items() if key not in old]
    if gone or come:
        yield from ("", "where inf and NaN come from:")
    for sign, origins in (("-", gone), ("+", come)):
        for one in origins[:_LINES]:
            yield from wrap(_origin(one), width, "    ", f"  {sign} ")
        if len(origins) > _LINES:
            yield f"  {sign} {len(origins) - _LINES} more"


def _origin(one: NonFinite) -> str:
    kind = "NaN" if one.kind == "nan" else one.kind
    return f"{place(one.filename, one.row)}: {kind}, {one.phase} of {one.op} in {one.dtype}, step {one.step + 1}"


def _held(before: RunData, after: RunData) -> Iterator[str]:
    groups = [Counter((one.optimizer, one.dtype) for one in record.held) for record in (before, after)]
    if groups[0] == groups[1]:
        return
    yield from ("", "parameters:")
    for name, group in zip(("before", "after"), groups, strict=True):
        kinds = ", ".join(f"{optimizer} {count} in {dtype}" for (optimizer, dtype), count in group.items())
        yield f"  {name}: {kinds or 'none'}"


def _computed(line: Line) -> dict[str, str]:
    """For each phase the dtypes of computations, and the target dtypes of casts."""
    phases: dict[str, str] = {}
    for phase in PASSES:
        kinds = [dtype.rpartition(" -> ") for dtype in sorted(line.by_dtype(phase))]
        computed = [dtype for _, arrow, dtype in kinds if not arrow]
        casts = sorted({dtype for _, arrow, dtype in kinds if arrow})
        parts = [*computed, *([f"casts to {' and '.join(casts)}"] if casts else [])]
        if parts:
            phases[phase] = ", ".join(parts)
    return phases


def _row(finding: Finding) -> Row:
    return finding.filename, finding.span.start.row


def _moved(row: Row, pairs: dict[Row, Row]) -> Row:
    return pairs.get(row, row)


def _pairs(before: RunData, after: RunData) -> dict[Row, Row]:
    """Pairs of lines before -> after. In a changed file, lines are matched by the operations they ran."""
    old, new = _calls(before), _calls(after)
    pairs: dict[Row, Row] = {}
    for filename, rows in old.items():
        other = _counterpart(filename, old.keys(), new.keys())
        if other is None:
            continue
        if before.sources.get(filename) and before.sources.get(filename) == after.sources.get(other):
            pairs |= {(filename, row): (other, row) for row in {*rows, *new[other]}}
            continue
        left, right = sorted(rows), sorted(new[other])
        matcher = SequenceMatcher(None, [rows[row] for row in left], [new[other][row] for row in right], autojunk=False)
        for tag, start, end, first, last in matcher.get_opcodes():
            if tag == "equal" or (tag == "replace" and end - start == last - first):
                ran = zip(left[start:end], right[first:last], strict=True)
                pairs |= {(filename, row): (other, moved) for row, moved in ran}
    return pairs


def _calls(record: RunData) -> dict[str, dict[int, frozenset[str]]]:
    """For each file and row the forward calls, which identify a line independently of its dtypes."""
    files: dict[str, dict[int, set[str]]] = {}
    for operation in record.operations:
        if operation.row and operation.phase in PASSES:
            calls = files.setdefault(operation.filename, {}).setdefault(operation.row, set())
            if operation.phase == "forward" and operation.op != "_to_copy":
                calls.add(operation.api or operation.op)
    return {name: {row: frozenset(calls) for row, calls in rows.items()} for name, rows in files.items()}


def _counterpart(filename: str, before: Collection[str], after: Collection[str]) -> str | None:
    """The file corresponding to `filename` in the other run: same path, else same name, else the only one in both."""
    if filename in after:
        return filename
    name = PurePath(filename).name
    alike = [other for other in after if PurePath(other).name == name and other not in before]
    if len(alike) == 1:
        return alike[0]
    left, right = ([one for one in some if one not in others] for some, others in ((before, after), (after, before)))
    return right[0] if len(left) == len(right) == 1 else None
