"""AMP815."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.torchlib.names import HALF_DTYPES
from amplint.trace.check import Check, plain, within
from amplint.trace.data import Operation, RunData
from amplint.trace.kinds import PRODUCTS


class RecomputedOtherwise(Check):
    """A checkpoint computes in another dtype again than the forward pass did.

    ## Why is this bad?
    Gradients belong to what is computed again, and not to the loss that the forward pass came to. In float32 it takes
    the time and memory that the region was to save. The backward pass runs outside of the region: a checkpoint of
    one's own has to switch it on again, which `torch.utils.checkpoint` does.

    ## Example
    ```python
    with torch.enable_grad():
        out = ctx.block(x)
    torch.autograd.backward(out, gradient)
    ```

    ## Use instead
    ```python
    with torch.enable_grad(), torch.autocast("cuda", dtype=ctx.dtype, enabled=ctx.region):
        out = ctx.block(x)
    torch.autograd.backward(out, gradient)
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/checkpoint.html>
    """

    code = "AMP815"
    name = "recomputed-otherwise"
    severity = Severity.WARNING
    reason = "Gradients are those of what is computed again, which the loss was not computed from."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each recomputed line, with the first module that differs."""
        forward: dict[tuple[str, str], set[str]] = {}
        for operation in record.operations:
            if operation.phase == "forward" and _has_autocast_dtype(operation):
                forward.setdefault((operation.module, plain(operation)), set()).add(operation.outputs[0])
        seen: set[tuple[str, int]] = set()
        for again in record.operations:
            line = (again.filename, again.row)
            if again.phase != "recomputation" or not _has_autocast_dtype(again) or line in seen:
                continue
            before = forward.get((again.module, plain(again)), {again.outputs[0]})
            if again.outputs[0] not in before and {again.outputs[0], *before} & HALF_DTYPES:
                seen.add(line)
                yield self.found(
                    *line,
                    f"{again.op} is computed again in {again.outputs[0]}, and ran in {' and '.join(sorted(before))} "
                    f"in the forward pass{within(again)}",
                    advice="Keep torch.is_autocast_enabled() and its dtype, and switch the region on again.",
                )


def _has_autocast_dtype(operation: Operation) -> bool:
    """Whether autocast determines its dtype, at a known line and in a known module."""
    return bool(operation.row and operation.module and operation.outputs) and plain(operation) in PRODUCTS
