"""AMP802."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.tables import policy
from amplint.trace.check import Check, by_line, plain, times, within
from amplint.trace.record import Operation, Record, is_floating

_INNER = {
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "linalg_vector_norm": "norm",
}
"""Operators that are run for those of the policy's tables."""


_RELATIVE = frozenset({"pow", "reciprocal", "rsqrt"})
"""Operators that lose no more digits than a product does: bfloat16 has the range for their results."""


class SensitiveOpInHalf(Check):
    """An operation that autocast computes in float32 ran in half, and stored its result in half.

    ## Why is this bad?
    Autocast keeps exponentials, logarithms, powers, sums, norms and losses in float32, since their results leave the
    range of float16 or lose digits that matter. Outside of a region, as in a model that `.half()` converted, or in
    place, nothing keeps them there. `F.cross_entropy` is not told: it takes its own log-softmax of half logits in half.

    ## Example
    ```python
    probabilities = model.half()(inputs.half()).softmax(-1)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        probabilities = model(inputs).softmax(-1)
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP802"
    name = "sensitive-op-in-half"
    severity = Severity.WARNING
    reason = "Its results leave the range of half precision, or lose digits that matter; autocast keeps it in float32."

    def findings(self, record: Record) -> Iterator[Finding]:
        """One finding for each line with such operations."""
        table = policy()
        device = record.device if record.device in table.float32 else "cuda"
        names = {
            name.partition(".")[0]
            for group in (table.float32, table.float32_set_dtype, table.float32_append_dtype)
            for name in group[device]
            if "upsample_nearest" not in name  # copies numbers, none is rounded
        }
        learned = {(one.filename, one.row) for one in record.operations if one.phase == "backward"}
        coarse = ((operation, count) for operation, count in record.operations.items() if _is_coarse(operation, names))
        for (filename, row), kinds in by_line(coarse).items():
            worst = kinds[0][0]
            counts = [count for _, count in kinds]
            if max(counts) < record.steps and not worst.module and (filename, row) not in learned:
                continue  # it prepares the training
            yield self.found(
                filename,
                row,
                f"{worst.op} ran and stored its result in {worst.outputs[0]}, {times(sum(counts))}{within(worst)}",
                advice="Compute it in a region, or convert what goes in with .float().",
            )


def _is_coarse(operation: Operation, names: set[str]) -> bool:
    op = plain(operation)
    return (
        operation.phase == "forward"
        and not operation.api.endswith(".cross_entropy")
        and (op in names or _INNER.get(op) in names)
        and any(dtype in HALF_DTYPES for dtype in operation.inputs)
        and (op not in _RELATIVE or "float16" in operation.inputs)
        and operation.outputs[:1] in {(dtype,) for dtype in HALF_DTYPES}
        and all(dtype in HALF_DTYPES for dtype in operation.inputs[:1] if is_floating(dtype))
    )
