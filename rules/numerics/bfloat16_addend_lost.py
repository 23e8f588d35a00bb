"""AMP412."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import ONE, Operation
from amplint.semantics.values.values import Tensor, number

LOST = {"add": 2.0**-8, "sub": 2.0**-9}
"""The limit up to which a number added to 1 or subtracted from it leaves 1 in bfloat16."""

MADE = ("tensor", "as_tensor", "scalar_tensor")
DECAYS = (0.5, 1.0)
"""The bounds of factors that are applied repeatedly, whose distance from 1 matters."""
FAR = 0.01
"""The tolerated relative error of a factor's distance from 1."""


class Bfloat16AddendLost(Rule):
    """A number near 1 is rounded away in bfloat16.

    ## Why is this bad?
    bfloat16 has the range of float32 but 8 significant bits: its next number after 1 is 1.0078. `1 + 1e-3` is 1, and
    so is `1 - 1e-3`. Factors such as 0.999 or 1.001, built from a tensor of ones, are then no factors at all. A decay
    of 0.99 that is made a tensor is 0.988, which leaves 30% less after 200 steps.

    ## Example
    ```python
    scale = torch.ones(width, dtype=torch.bfloat16) + 1e-3
    ```

    ## Use instead
    ```python
    scale = torch.ones(width) + 1e-3
    ```
    Keep such tensors in float32, or multiply by the Python number 1.001, which is not rounded before.

    ## References
    - <https://docs.pytorch.org/docs/stable/type_info.html#torch.torch.finfo>
    """

    code = "AMP412"
    name = "bfloat16-addend-lost"
    severity = Severity.INFO
    applies_to_bfloat16 = True
    claims = (Claim(Sign.TAKES, ("bfloat16",)),)
    screen = (b"bfloat16", b"torch")
    goes_by = ("arguments",)
    reason = "bfloat16 has 8 significant bits: the next number after 1 is 1.0078."

    def on_operation(self, event: Operation) -> Iterator[Report]:
        yield from self._setting(event)
        numbers = [number(operand.value) for operand in event.operands]
        tensors = [operand.value for operand in event.operands if isinstance(operand.value, Tensor)]
        addend = next((abs(one) for one in numbers if one is not None), 0.0)
        if len(tensors) != 1 or not 0 < addend <= LOST.get(event.op, 0):
            return
        if tensors[0].dtype == "bfloat16" and ONE in tensors[0].traits:
            half = event.half
            yield self.report(
                event,
                f"{addend:g} is lost beside 1 in bfloat16",
                advice="Compute this in float32.",
                notes=[(half.node, half.text)] if half is not None and half.node is not None else (),
            )

    def _setting(self, event: Operation) -> Iterator[Report]:
        """Report a tensor constructed from a single number that bfloat16 rounds to another one."""
        given = event.arguments.get("data", 0) if event.op in MADE else None
        exact = number(given.value) if given is not None else None
        if exact is None or event.result.dtype != "bfloat16" or not DECAYS[0] <= abs(exact) < DECAYS[1]:
            return
        kept = rounded(exact)
        if abs(kept - exact) > FAR * (1 - abs(exact)):
            yield self.report(
                event,
                f"{exact:g} becomes {kept:g} in bfloat16",
                advice="Multiply by the Python number, or make the tensor in float32.",
            )


def rounded(value: float) -> float:
    """`value`, between 0.5 and 1, rounded to the eight significant bits of bfloat16."""
    return round(value * 2**8) / 2**8
