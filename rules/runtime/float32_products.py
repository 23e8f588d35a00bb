"""AMP801."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.trace.check import Check, by_line, times, within
from amplint.trace.data import RunData
from amplint.trace.kinds import is_float32_product


class Float32MatmulInRegion(Check):
    """A matrix product or convolution ran in float32, although autocast was on.

    ## Why is this bad?
    Matrix units work in half; a float32 product takes several times as long and twice the memory. Autocast does not
    cast for in-place products and those that write to `out=`.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        torch.mm(queries, keys, out=scores)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        scores = torch.mm(queries, keys)
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP801"
    name = "float32-matmul-in-region"
    severity = Severity.WARNING
    reason = "Matrix units compute in half; in float32 this takes several times as long and twice the memory."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each line with such products."""
        slow = ((operation, count) for operation, count in record.operations.items() if is_float32_product(operation))
        for line, kinds in by_line(slow).items():
            worst = kinds[0][0]
            yield self.found_at(
                line,
                f"{worst.op} ran in float32, {times(sum(count for _, count in kinds))}, in a region of "
                f"{worst.autocast}{within(worst)}",
                advice="Write it without out= and not in place, so that autocast casts its operands.",
            )
