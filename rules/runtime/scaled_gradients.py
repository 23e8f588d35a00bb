"""AMP814."""

from __future__ import annotations

from amplint.findings import Severity
from amplint.trace.check import ObservationCheck
from amplint.trace.data import Observation

_DOES = {
    "clipped": "{op} clips gradients",
    "compared": "a limit is compared with a norm that {op} takes of gradients",
    "stepped": "{op} takes gradients",
}


class ScaledGradientsUsed(ObservationCheck):
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

    def message(self, one: Observation) -> str:
        """The use of gradients that carry the scale."""
        where = f" ({one.module})" if one.module else ""
        does = _DOES.get(one.kind, "").format(op=one.op)
        return f"{does} that carry a loss scale of {one.size:.9g}{where}" if does else ""

    def advice(self, one: Observation) -> str:
        """The call that unscales them first."""
        if one.kind == "stepped":
            return "Step by scaler.step(optimizer)."
        return "Call scaler.unscale_(optimizer) before, once for each optimizer and step."
