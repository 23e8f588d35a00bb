"""AMP805."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.trace.check import Check, Place, place, within
from amplint.trace.data import HalfLoss, NonFinite, RunData

from .settling import too_high

_LARGEST = 15
"""The exponent of float16's largest number."""


class GradientOverflow(Check):
    """A loss scale is so high that gradients become inf in float16, step after step.

    ## Why is this bad?
    A scaler skips a step whose gradients are inf, and halves its scale. It is meant to do so a few times, from 65536
    on; each time a step is lost. One that begins far above skips all the steps that it takes to come down.

    ## Example
    ```python
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**24)
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cuda")
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling>
    """

    code = "AMP805"
    name = "gradient-overflow"
    severity = Severity.WARNING
    reason = "The largest number of float16 is 65504, and a step with an inf among its gradients is skipped."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each line whose operations overflow at too high a scale."""
        scales = too_high(record)
        hits: list[HalfLoss | NonFinite] = [
            loss for loss in record.losses if loss.phase == "backward" and loss.overflowed
        ]
        hits += [origin for origin in record.nonfinite if _overflows(origin)]
        seen: set[Place] = set()
        for hit in hits:
            if hit.row and hit.scale in scales and place(hit) not in seen:
                seen.add(place(hit))
                yield self.found_at(
                    place(hit),
                    f"a loss scale of {hit.scale:.9g} is too high for {hit.op}{within(hit)}: gradients of this line "
                    f"are inf in {hit.dtype} and finite in float32",
                    advice=_advice(hit),
                )


def _overflows(origin: NonFinite) -> bool:
    return origin.phase == "backward" and origin.kind == "inf" and bool(origin.finite_in_float32)


def _advice(hit: HalfLoss | NonFinite) -> str:
    if isinstance(hit, HalfLoss) and hit.largest is not None:
        return f"Begin with a scale of {hit.scale * 2.0 ** (_LARGEST - 1 - hit.largest):.9g} or less."
    return "Begin with GradScaler's own scale, 65536."
