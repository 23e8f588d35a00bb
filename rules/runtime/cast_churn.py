"""AMP810."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.torchlib.names import HALF_DTYPES
from amplint.trace.check import Check, by_line, times, within
from amplint.trace.data import Operation, RunData
from amplint.trace.kinds import casts_inside

_PER_ROUND = 2


class CastChurn(Check):
    """One line casts to half and back to float32, over and over.

    ## Why is this bad?
    A cast reads and writes the whole tensor: where results go back and forth between half and float32, the casts can
    take more time than what is computed.

    ## Example
    ```python
    for layer in layers:
        x = layer(x.float()).half()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        for layer in layers:
            x = layer(x)
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP810"
    name = "cast-churn"
    severity = Severity.INFO
    reason = "A cast reads and writes the whole tensor."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each line that casts back and forth, with a backward pass through it."""
        backward = sum(count for call, count in record.calls.items() if call.name == "torch.Tensor.backward")
        rounds = max(record.steps, backward)
        learned = {(one.filename, one.row) for one in record.operations if one.phase == "backward"}
        casts = ((operation, count) for operation, count in record.operations.items() if _is_cast(operation))
        for line, kinds in by_line(casts).items():
            down = sum(count for operation, count in kinds if operation.outputs[0] in HALF_DTYPES)
            up = sum(count for operation, count in kinds if operation.outputs[0] == "float32")
            if line[:2] in learned and min(down, up) > _PER_ROUND * rounds:
                yield self.found_at(
                    line,
                    f"casts to half {times(down)} and back to float32 {times(up)}{within(kinds[0][0])}",
                    advice="Keep the tensor in one dtype along this path.",
                )


def _is_cast(operation: Operation) -> bool:
    half = {*operation.inputs, *operation.outputs} & HALF_DTYPES
    return (
        operation.phase == "forward"
        and operation.op == "_to_copy"
        and not casts_inside(operation)
        and len(half) == 1
        and "float32" in (*operation.inputs, *operation.outputs)
    )
