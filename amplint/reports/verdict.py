"""The verdict on a run in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from amplint.findings import Finding, Severity
from amplint.records import dataclass
from amplint.reports.ran import scale_text
from amplint.trace.absence import absence
from amplint.trace.check import through
from amplint.trace.data import NonFinite, RunData

Place = Callable[[str, int], str]
"""What names a line of a file; row 0 is none."""


@dataclass(frozen=True)
class Verdict:
    """A sentence without its full stop, and a level: `good`, `doubtful`, `bad`, or `unknown`."""

    text: str
    level: str


@dataclass(frozen=True)
class Steps:
    """The number of steps `seen` and `skipped` by a scaler; `spoilt` if none had finite gradients."""

    seen: int
    skipped: int
    spoilt: bool

    @property
    def none_trained(self) -> bool:
        """Whether no step changed the weights usefully."""
        return self.seen > 0 and (self.spoilt or self.skipped == self.seen)


def steps(record: RunData) -> Steps:
    """The outcome of the steps: of the recorded ones, or of all if a scaler was followed throughout."""
    whole = [series for series in record.series if series.what == "skipped" and series.values]
    if record.every > 1 and len(whole) == 1:
        seen, skipped = record.taken, int(whole[0].values[-1] or 0)
    else:
        entries = Counter(step.step for step in record.scaler_steps)
        kept = Counter(step.step for step in record.scaler_steps if step.skipped)
        seen = max(record.steps, len(entries))
        skipped = sum(kept[number] == count for number, count in entries.items())
    gradients = [each for each in record.histograms if each.what == "gradient"]
    spoilt = any(each.nonfinite for each in gradients) and not any(each.exponents or each.zeros for each in gradients)
    return Steps(seen, skipped, spoilt)


def origin(record: RunData, found: Sequence[Finding]) -> NonFinite | None:
    """The first operation that made inf or NaN among the lines with serious findings."""
    places = {(one.filename, one.span.start.row) for one in found if one.severity > Severity.INFO}
    known = [one for one in record.nonfinite if (one.filename, one.row) in places]
    return min(known, key=lambda one: one.step, default=None)


def verdict(record: RunData, found: Sequence[Finding], place: Place) -> Verdict:
    """The verdict on `record` with the checks' findings `found`; `place` names a line."""
    missing, was, first = absence(record), steps(record), origin(record, found)
    serious = [one for one in found if one.severity > Severity.INFO]
    level = "good" if not serious else "bad" if serious[0].severity == Severity.ERROR else "doubtful"
    if missing or not record.operations:
        said = _found(found, serious, place) if record.operations else ""
        return Verdict(f"no step was recorded: {missing or 'no operation ran in the window'}{said}", "unknown")
    if was.none_trained and (first is not None or was.spoilt):
        why = _makes(first, place) if first is not None else "no gradient is finite"
        return Verdict(f"no step of {was.seen} trained: {why}", "bad")
    if first is not None:
        when = f"{was.skipped} of {_steps(was.seen)} {_were(was.skipped)} skipped: " if was.skipped else ""
        return Verdict(f"{when}{_makes(first, place)}{'' if when else f' in step {first.step + 1}'}", "bad")
    level = "doubtful" if was.none_trained and level == "good" else level
    return Verdict(f"{_outcome(record, was)}{_found(found, serious, place)}", level)


def _outcome(record: RunData, was: Steps) -> str:
    if record.cut and record.failures:
        return f"the run broke off in step {record.taken + 1}: {record.failures[-1].type}"
    if not was.seen:
        return "no step was taken, and what ran is recorded as a whole"
    if was.none_trained:
        scales = [step.scale for step in record.scaler_steps]
        return f"no step of {was.seen} trained: the scaler skipped them, at scales of {_from_to(scales)}"
    looked = record.numerics != "off" or record.scaler_steps
    if was.skipped:
        return f"{was.seen - was.skipped} of {_steps(was.seen)} trained, and {was.skipped} {_were(was.skipped)} skipped"
    return f"{_steps(was.seen)} {'trained' if looked else 'ran, and numbers were not looked at'}"


def _found(found: Sequence[Finding], serious: Sequence[Finding], place: Place) -> str:
    if serious:
        worst = serious[0]
        more = f" ({len(serious) - 1} more)" if len(serious) > 1 else ""
        return f"; {place(worst.filename, worst.span.start.row)}: {worst.message}{more}"
    if found:
        return f"; {len(found)} {'hint' if len(found) == 1 else 'hints'}, nothing worse"
    return "; nothing was found"


def _makes(first: NonFinite, place: Place) -> str:
    kind = "NaN" if first.kind == "nan" else first.kind
    if first.phase == "optimizer":
        return f"{first.api} at {place(first.filename, first.row)} takes gradients that are {kind}"
    scale = f" at a loss scale of {scale_text(first.scale)}" if first.scale is not None else ""
    backward = f", in the backward pass{scale}" if first.phase == "backward" else ""
    return f"{place(first.filename, first.row)}{through(first)} makes {kind} ({first.op} in {first.dtype}{backward})"


def _from_to(scales: Sequence[float]) -> str:
    if not scales:
        return "unknown size"
    return scale_text(scales[0]) if scales[0] == scales[-1] else f"{scale_text(scales[0])} to {scale_text(scales[-1])}"


def _steps(number: int) -> str:
    return f"{number} step{'' if number == 1 else 's'}"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
