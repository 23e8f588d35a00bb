"""AMP812."""

from __future__ import annotations

from amplint.findings import Severity
from amplint.trace.check import ObservationCheck, times
from amplint.trace.data import Observation

_SHARE = 0.5
"""The share of unchanged numbers, of those that were to change, from which they are reported."""


class StuckState(ObservationCheck):
    """State that a run keeps in half does not follow its updates.

    Running averages, copies of a model that follow it slowly, statistics of a normalisation, counters and sums: what
    is written outside of what is learned through, and read in a later step.

    ## Why is this bad?
    bfloat16 has three digits, float16 has four. An average that keeps 0.999 of what it was is to change by a thousandth
    of the difference, which is rounded away: it stays where it began, and no error says so. A counter in bfloat16 stays
    at 256, one in float16 at 2048. The variance of large activations is inf in float16, and all that is normalised by
    it in evaluation is 0.

    ## Example
    ```python
    teacher = copy.deepcopy(student).bfloat16()
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.mul_(0.999).add_(fast.to(slow.dtype), alpha=0.001)
    ```

    ## Use instead
    ```python
    teacher = copy.deepcopy(student)
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.lerp_(fast, 0.001)
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html>
    """

    code = "AMP812"
    name = "stuck-state"
    severity = Severity.WARNING
    reason = "Half has three or four digits, and a change below the last of them is none."

    def message(self, one: Observation) -> str:
        """The lost updates at the line."""
        return _message(one)

    def advice(self, one: Observation) -> str:
        """The advice, equal for all kinds."""
        return "Keep it in float32, and convert what is read of it."


def _message(one: Observation) -> str:
    where = f" ({one.module})" if one.module else ""
    share = one.share or 0.0
    if one.kind == "stuck" and share > _SHARE:
        return f"{share:.0%} of what {one.op} was to change in {one.dtype} stayed as it was, {times(one.count)}{where}"
    if one.kind == "summed":
        return f"{one.op} lost {share:.1%} of what it added up in {one.dtype}, {times(one.count)}{where}"
    if one.kind == "infinite":
        return f"what {one.op} keeps for evaluation became inf in {one.dtype}{where}"
    return ""
