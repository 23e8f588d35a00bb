"""AMP811."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.trace.check import Check, place, within
from amplint.trace.compared import Comparison, LineDrift
from amplint.trace.data import RunData

_LINES = 3
_SHARE = 0.25
"""The share of the worst line's contribution below which lines are left out."""
_LOST = 0.5
"""The relative error below which gradients are fine: numbers near 0 change sides in a ReLU."""


class DriftFromFloat32(Check):
    """A line's results are off from those of float32 by more than rounding explains.

    Found with `amplint trace --compare-float32`, which computes each recorded step in float32 as well, from the same
    state and data.

    ## Why is this bad?
    One rounding to float16 is an error of at most 0.0005, to bfloat16 of 0.004, and most operations pass on what they
    get. A few make much more of it: squares and exponentials that overflow, a small number that becomes 0, a difference
    of large numbers, a sum of many terms. What comes after them is as wrong, gradients included.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        queries = self.project(x)
        distance = (queries * queries).sum(-1) - 2 * scores
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        queries = self.project(x).float()
        distance = (queries * queries).sum(-1) - 2 * scores
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html>
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP811"
    name = "drift-from-float32"
    severity = Severity.INFO
    reason = "What is computed from it is as wrong, gradients included."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """The worst lines: of several passes only those of the first that fails."""
        comparison = record.comparison
        if comparison is None:
            return
        for drift in _worst(comparison):
            advice = "Compute this line in float32: convert what goes in with .float(), where autocast is off."
            yield self.found_at(place(drift), _message(drift, comparison), advice=advice)


def _worst(comparison: Comparison) -> list[LineDrift]:
    """The first lines that produce inf or NaN, otherwise those that contribute most.

    Those of the backward pass only without others, and if the gradient of a parameter is off.
    """
    lines, tolerance = comparison.lines, comparison.tolerance
    found = [one for one in lines if one.phase == "forward" and (one.kind or (one.added or 0.0) > tolerance)]
    if not found and any(one.what == "gradient" and one.size > tolerance for one in comparison.tensors):
        found = [one for one in lines if one.kind or (one.added or 0.0) > _LOST]
    found = [one for one in found if one.kind] or found
    most = max((one.added or 0.0 for one in found), default=0.0)
    return [one for one in found if one.kind or (one.added or 0.0) >= _SHARE * most][:_LINES]


def _message(drift: LineDrift, comparison: Comparison) -> str:
    backward = "the backward pass of this line" if drift.phase == "backward" else "this line"
    if drift.kind:
        kind = {"inf": "inf", "nan": "NaN"}[drift.kind]
        return f"{backward} leads to {kind} that float32 does not have: {drift.op} in {drift.dtype}{within(drift)}"
    return (
        f"{backward} adds {drift.added:.2g} to the relative error against float32, where rounding to {comparison.half} "
        f"explains {comparison.tolerance:.2g}: {drift.op} in {drift.dtype}{within(drift)}"
    )
