"""AMP803."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.torchlib.names import HALF_DTYPES
from amplint.trace.check import Check, Place, place, within
from amplint.trace.data import NonFinite, RunData

from .settling import hopeless


class NonfiniteOrigin(Check):
    """An operation made inf or NaN out of finite numbers, and the loss or gradients are not finite for it.

    ## Why is this bad?
    Everything that is computed from an inf or NaN becomes one too, and an optimizer that steps with it destroys the
    weights. In float16 numbers end at 65504, which a product of large activations, an exponential or a sum reaches.
    A logarithm or a division by 0, and the derivative of a root at 0, do so in any dtype.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        energy = (queries @ keys.mT) * 1000
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        energy = (queries @ keys.mT).float() * 1000
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP803"
    name = "nonfinite-origin"
    severity = Severity.ERROR
    reason = "Everything that is computed from an inf or NaN becomes one too."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each line of the first step with any; those of the backward pass only without others."""
        steps = hopeless(record)
        known = [origin for origin in record.nonfinite if origin.row]
        origins = [origin for origin in known if origin.step in steps or not _may_be_scaled_away(origin)]
        first = min((origin.step for origin in origins), default=None)
        origins = [origin for origin in origins if origin.step == first]
        forward = [origin for origin in origins if origin.phase != "backward"]
        seen: set[Place] = set()
        for origin in forward or origins:
            if place(origin) not in seen:
                seen.add(place(origin))
                yield self.found_at(place(origin), _message(origin), advice=_advice(origin))


def _may_be_scaled_away(origin: NonFinite) -> bool:
    """Whether a lower loss scale may help, as a scaler would find it: for half gradients, not for the forward pass."""
    half = origin.dtype in HALF_DTYPES and origin.finite_in_float32 is not False
    return origin.phase == "backward" and origin.scale is not None and half


def _is_step(origin: NonFinite) -> bool:
    """Whether an optimizer stepped with non-finite gradients whose origin was not observed."""
    return origin.phase == "optimizer" and origin.op == "step"


def _message(origin: NonFinite) -> str:
    kind = {"inf": "inf", "nan": "NaN"}[origin.kind]
    if _is_step(origin):
        return f"gradients that {origin.api} takes are {kind}, in {origin.dtype}, step {origin.step + 1}"
    backward = " in the backward pass of this line" if origin.phase == "backward" else ""
    scale = f", at a loss scale of {origin.scale:.9g}" if backward and origin.scale is not None else ""
    what = f"{origin.op} made {kind} out of finite numbers{backward}"
    return f"{what}, in {origin.dtype}{within(origin)}, step {origin.step + 1}{scale}"


def _advice(origin: NonFinite) -> str:
    if _is_step(origin):
        return f"Record this step, which names the operation: --skip {origin.step} --steps 1."
    if origin.finite_in_float32:
        return "In float32 the same numbers stay finite: convert what goes in with .float()."
    return (
        "Keep what goes in away from where the result, or its derivative, has no end: add a small number, or clamp it."
    )
