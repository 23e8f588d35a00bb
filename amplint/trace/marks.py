"""Static findings marked by a run's evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from amplint.claims import Claim, Mark, Sign, Verdict
from amplint.findings import Finding
from amplint.trace.data import Call, Operation, RunData
from amplint.trace.evidence import Evidence, Seen
from amplint.trace.kinds import floating
from amplint.trace.naming import names_of

Read = Callable[[str], bytes | None]
Kinds = Sequence[tuple[Operation, int]]
Calls = Sequence[tuple[Call, int]]
_SHOWN = 2


class Marks:
    """Marks findings by `record`; `read` returns a file's content.

    `changed` are files whose content differs from the run's.
    """

    def __init__(self, record: RunData, read: Read) -> None:
        self.changed: set[str] = set()
        self._evidence = Evidence(record)
        self._read = read

    def marked(self, finding: Finding) -> Finding:
        """`finding` with its mark; unmarked if its file has changed, or a run cannot show what it claims."""
        place = finding.shown or finding.elsewhere
        filename, span = (place.filename or finding.filename, place.span) if place else (finding.filename, finding.span)
        raw = self._read(filename) if finding.claims else None
        if raw is None:
            return finding
        names = self._evidence.names(filename, raw)
        if names is None:
            self.changed.add(filename)
            return finding
        seen = self._evidence.at(names, raw, span.start.row, span.end.row)
        if seen.hidden:
            return finding
        record = self._evidence.record
        mark = _together([_judged(claim, seen, record) for claim in finding.claims])
        if mark.verdict is Verdict.CONTRADICTED:
            mark = replace(mark, text=f"{mark.text} on {record.device}")
        return replace(finding, mark=Mark(mark.verdict, "; ".join(filter(None, (mark.text, *_numbers(seen))))))


def _together(marks: list[Mark]) -> Mark:
    """The combined mark of alternative claims."""
    order = (Verdict.CONFIRMED, Verdict.UNDECIDED, Verdict.CONTRADICTED, Verdict.NOT_EXERCISED)
    return min(marks, key=lambda mark: order.index(mark.verdict))


def _judged(claim: Claim, seen: Seen, record: RunData) -> Mark:
    if claim.sign is Sign.HOLDS:
        return _held(claim, seen, record)
    if claim.sign in (Sign.RAISES, Sign.CAN_RAISE):
        return _raised(claim, seen)
    if claim.sign is Sign.NOT_FINITE:
        return _not_finite(claim, seen)
    if not seen.exercised:
        return _absent(claim, seen)
    if claim.sign in (Sign.REGION_ON, Sign.REGION_OFF, Sign.INERT):
        return _region(claim.sign, seen, record)
    return _computed(claim, seen)


def _absent(claim: Claim, seen: Seen) -> Mark:
    """The mark of a place without evidence: undecided in a function that ran, unless the claim names operations."""
    if seen.around and not claim.ops:
        return Mark(Verdict.UNDECIDED)
    return Mark(Verdict.NOT_EXERCISED, "nothing of it ran in the recorded steps")


def _computed(claim: Claim, seen: Seen) -> Mark:
    """The verdict about dtypes of operations."""
    meant = _meant(claim, seen.operations) or _meant(claim, seen.inner)
    if not meant:
        return Mark(Verdict.UNDECIDED, _kinds_text(seen.operations))
    fits = [(operation, count) for operation, count in meant if _fits(claim, operation, seen)]
    return Mark(Verdict.CONFIRMED, _kinds_text(fits)) if fits else Mark(Verdict.CONTRADICTED, _kinds_text(meant))


def _fits(claim: Claim, operation: Operation, seen: Seen) -> bool:
    took, gave = set(floating(operation.inputs)), set(floating(operation.outputs))
    if claim.sign is Sign.GIVES:
        return bool(gave) and gave <= set(claim.dtypes)
    if claim.sign is Sign.STAYS_WIDE:
        return bool(operation.autocast) and took == {"float32"}
    if claim.sign is Sign.WIDENS:
        some = {dtype for other, _ in seen.operations for dtype in other.inputs}
        return gave == {"float32"} and bool(some & set(claim.dtypes))
    return bool(took or gave) and (took or gave) <= set(claim.dtypes)


def _meant(claim: Claim, kinds: Kinds) -> Kinds:
    """The operations in `kinds` that the claim is about."""
    casts = claim.sign is Sign.GIVES
    some = [(one, count) for one, count in kinds if casts or one.op != "_to_copy"]
    return [(one, count) for one, count in some if not claim.ops or names_of(one.op, one.api) & names_of(*claim.ops)]


def _region(sign: Sign, seen: Seen, record: RunData) -> Mark:
    """The verdict about a region, from the calls of modules at the place, or else from its operations."""
    states = {call.autocast for call, _ in seen.calls}
    states = states or {one.autocast for one, _ in seen.operations}
    unused = sign is Sign.REGION_OFF and not any(one.autocast for one in record.operations)
    if not states or unused:
        return Mark(Verdict.UNDECIDED)
    confirmed = any(states) if sign is Sign.REGION_ON else "" in states if sign is Sign.REGION_OFF else not any(states)
    words = sorted(f"on ({state})" if state else "off" for state in states)
    return Mark(Verdict.CONFIRMED if confirmed else Verdict.CONTRADICTED, f"autocast was {' and '.join(words)}")


def _held(claim: Claim, seen: Seen, record: RunData) -> Mark:
    held = seen.held or (() if claim.ops else record.held)  # without a step in the claim, those of the whole run
    if not held:
        return Mark(Verdict.UNDECIDED) if seen.exercised else _absent(claim, seen)
    found = sorted({one.dtype for one in held})
    verdict = Verdict.CONFIRMED if set(found) & set(claim.dtypes) else Verdict.CONTRADICTED
    return Mark(verdict, f"{held[0].optimizer} steps {' and '.join(found)} parameters")


def _raised(claim: Claim, seen: Seen) -> Mark:
    for failure in seen.failures:
        if not claim.texts or any(text in failure.message for text in claim.texts):
            return Mark(Verdict.CONFIRMED, f"it raised {failure.type}: {failure.message}")
    ran = _meant(claim, seen.operations)
    called = [(one, count) for one, count in seen.calls if not claim.ops or names_of(one.name) & names_of(*claim.ops)]
    if seen.failures or claim.sign is Sign.CAN_RAISE or not (ran or called):
        return Mark(Verdict.UNDECIDED) if seen.exercised else _absent(claim, seen)
    return Mark(Verdict.CONTRADICTED, _kinds_text(ran or called))


def _not_finite(claim: Claim, seen: Seen) -> Mark:
    for origin in seen.nonfinite:
        return Mark(Verdict.CONFIRMED, f"{origin.op} gave {origin.kind} in {origin.dtype}")
    return Mark(Verdict.UNDECIDED, _kinds_text(seen.operations)) if seen.exercised else _absent(claim, seen)


def _numbers(seen: Seen) -> list[str]:
    """The numerical evidence of forward passes."""
    observations = [f"{origin.op} made {origin.kind}" for origin in seen.nonfinite if origin.phase != "backward"]
    for loss in seen.losses:
        for what, count in (("0", loss.underflowed), ("inf", loss.overflowed)):
            if count and loss.phase != "backward":
                observations.append(f"{loss.op} made {count} of {loss.elements} numbers {what}")
    return list(dict.fromkeys(observations))[:_SHOWN]


def _kinds_text(kinds: Kinds | Calls) -> str:
    """`mul took float16, gave float16 (3 times)`, for the most frequent kinds."""
    most = sorted([*kinds], key=lambda kind: -kind[1])[:_SHOWN]
    return ", ".join(_one(kind, count) for kind, count in most)


def _one(kind: Operation | Call, count: int) -> str:
    sides = (("took", kind.inputs), ("gave", kind.outputs))
    dtypes_text = ", ".join(f"{verb} {' and '.join(dict.fromkeys(dtypes))}" for verb, dtypes in sides if dtypes)
    name = kind.op if isinstance(kind, Operation) else kind.name
    return f"{name} {dtypes_text} ({'once' if count == 1 else f'{count} times'})"
