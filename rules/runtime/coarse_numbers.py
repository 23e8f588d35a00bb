"""AMP813."""

from __future__ import annotations

from amplint.findings import Severity
from amplint.trace.check import ObservationCheck
from amplint.trace.data import Observation

_SHARE = 0.25
"""The share of numbers indistinguishable in half below which nothing is reported."""
_LOST = 0.5
"""The share of terms without effect on a running sum below which nothing is reported."""


class CoarseNumbers(ObservationCheck):
    """Positions, counts, running sums or angles are too large for half to tell neighbours apart.

    ## Why is this bad?
    bfloat16 has every whole number up to 256, float16 up to 2048; beyond, only every second, fourth, ... of them. So
    positions repeat, a running sum does not notice what is added to it, and an angle of a thousand radians is off by
    some, which makes its sine another number.

    ## Example
    ```python
    positions = torch.arange(length, dtype=x.dtype)
    angles = positions[:, None] * frequencies
    ```

    ## Use instead
    ```python
    positions = torch.arange(length, dtype=torch.float32)
    angles = positions[:, None] * frequencies
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html>
    """

    code = "AMP813"
    name = "coarse-numbers"
    severity = Severity.WARNING
    reason = "Half has every whole number up to 256 or 2048 only, and no digits left behind the point of large numbers."

    def message(self, one: Observation) -> str:
        """The loss of precision at the line."""
        return _message(one)

    def advice(self, one: Observation) -> str:
        """The advice, equal for all kinds."""
        return "Compute it in float32, and convert what comes of it."


def _message(one: Observation) -> str:
    share, size = one.share or 0.0, one.size or 0.0
    where = f" ({one.module})" if one.module else ""
    if one.kind == "counted" and share > _SHARE:
        return f"{share:.0%} of what arange counts up to {size:.9g} repeats the number before it in {one.dtype}{where}"
    if one.kind == "rounded" and share > _SHARE:
        return f"{share:.0%} of the whole numbers up to {size:.9g} are others in {one.dtype}{where}"
    if one.kind == "running" and share > _LOST:
        return f"a running sum up to {size:.4g} does not notice {share:.0%} of its terms in {one.dtype}{where}"
    if one.kind == "factors":
        return f"the factors of a running product are so near 1 that {one.dtype} has one digit of the difference{where}"
    if one.kind == "angle" and share > _SHARE:
        return f"{one.op} takes angles up to {size:.4g}, where {one.dtype} is off by half a radian and more{where}"
    return ""
