"""AMP204."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, OptState, ScalerStep
from amplint.torchlib.names import SCALER_SIGNS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class DoubleStep(Rule):
    """`scaler.step()` runs twice for one optimizer before `update()`.

    ## Why is this bad?
    The scaler remembers that the optimizer has stepped and raises `RuntimeError: step() has already been called since
    the last update()`. Two steps on the same gradients would also move the weights twice.

    ## Example
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    Where the first step always comes before, the second can only raise and is removed. The fix is unsafe all the same,
    since an `update()` between the two may have been meant.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step>
    """

    code = "AMP204"
    name = "double-step"
    severity = Severity.ERROR
    claims = (Claim(Sign.CAN_RAISE, texts=("already been called",)),)
    screen = (b".step(", SCALER_SIGNS)
    fixable = Applicability.UNSAFE
    reason = "PyTorch allows one step() per optimizer between two update() calls; the second raises RuntimeError."

    def on_scaler_step(self, event: ScalerStep) -> Iterator[Report]:
        if event.stage.state is OptState.STEPPED and event.same_iteration:
            yield self.report(
                event,
                "step() runs a second time for this optimizer before update()",
                advice="Step once, then call scaler.update(); step every optimizer before that one update().",
                notes=event.steps_from(event.stage.node),
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, ScalerStep)
        first = event.stage.node
        if first is None or first is event.node or not rewrite.shares_block(first, event.node):
            return None
        edit = rewrite.remove_statement(event.node)
        return Fix("Remove the second step()", (edit,), Applicability.UNSAFE) if edit else None
