"""AMP814."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.trace.check import Check
from amplint.trace.record import Observation, Record

_DOES = {
    "clipped": "{op} clips gradients",
    "compared": "a limit is compared with a norm that {op} takes of gradients",
    "stepped": "{op} takes gradients",
}


class ScaledGradientsUsed(Check):
    """Gradients are clipped, compared with a limit or stepped with while they carry the loss scale.

    ## Why is this bad?
    Behind `scaler.scale(loss).backward()` all gradients are larger by the scale, 65536 at first. A limit for their norm
    then means a 65536th of itself, and another number whenever the scale changes; a step that the scaler does not take
    is larger by as much. `unscale_` divides them, once for each optimizer.

    ## Example
    ```python
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping>
    """

    code = "AMP814"
    name = "scaled-gradients-used"
    severity = Severity.ERROR
    reason = "What is learned depends on the loss scale then, which changes as the scaler sees fit."

    def findings(self, record: Record) -> Iterator[Finding]:
        """One finding for each line."""
        seen: set[tuple[str, int]] = set()
        for one in record.observations:
            if one.kind in _DOES and one.row and (one.filename, one.row) not in seen:
                seen.add((one.filename, one.row))
                yield self.found(one.filename, one.row, _message(one), advice=_advice(one))


def _message(one: Observation) -> str:
    where = f" ({one.module})" if one.module else ""
    return f"{_DOES[one.kind].format(op=one.op)} that carry a loss scale of {one.size:.9g}{where}"


def _advice(one: Observation) -> str:
    if one.kind == "stepped":
        return "Step by scaler.step(optimizer)."
    return "Call scaler.unscale_(optimizer) before, once for each optimizer and step."
