"""AMP816."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.trace.check import Check
from amplint.trace.record import Record


class CachedWithoutGradient(Check):
    """A weight learns nothing, since the region keeps a cast of it that was made without gradients.

    ## Why is this bad?
    Autocast casts each weight once in a region and keeps the result. Where a first forward pass runs under `no_grad`,
    the cast that is kept has no history, and a later forward pass in the same region takes it: the weight gets no
    gradient from there, and no error says so.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        with torch.no_grad():
            target = model(x)
        loss = criterion(model(augmented), target)
    ```

    ## Use instead
    ```python
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
        target = model(x)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(augmented), target)
    ```

    ## References
    - <https://github.com/pytorch/pytorch/issues/112583>
    """

    code = "AMP816"
    name = "cached-without-gradient"
    severity = Severity.ERROR
    reason = "Autocast keeps casts of weights until its region ends, also those that have no history."

    def findings(self, record: Record) -> Iterator[Finding]:
        """One finding for each line."""
        seen: set[tuple[str, int]] = set()
        for one in record.observations:
            if one.kind == "cached" and one.row and (one.filename, one.row) not in seen:
                seen.add((one.filename, one.row))
                where = f" ({one.module})" if one.module else ""
                yield self.found(
                    one.filename,
                    one.row,
                    f"{one.op} takes a weight that was cast to {one.dtype} without gradients{where}",
                    advice="Close the region behind the forward pass under no_grad, or open it with "
                    "cache_enabled=False.",
                )
