"""AMP412."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import ONE, Operation
from amplint.semantics.values.values import Tensor, number

LOST = {"add": 2.0**-8, "sub": 2.0**-9}
"""Up to this, a number added to 1 or taken from it leaves 1 in bfloat16."""


class Bfloat16AddendLost(Rule):
    """A number is added to ones in bfloat16, which rounds it away.

    ## Why is this bad?
    bfloat16 has the range of float32 but 8 significant bits: its next number after 1 is 1.0078. `1 + 1e-3` is 1, and
    so is `1 - 1e-3`. Factors such as 0.999 or 1.001, built from a tensor of ones, are then no factors at all.

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
    claims = (Claim(Sign.TAKES, ("bfloat16",)),)
    screen = (b"bfloat16", b"torch.")
    reason = "bfloat16 has 8 significant bits: the next number after 1 is 1.0078."

    def on_operation(self, event: Operation) -> Iterator[Report]:
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
