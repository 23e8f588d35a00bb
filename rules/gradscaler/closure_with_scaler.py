"""AMP214."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import GradState, OptimizerStep, ScalerStep
from amplint.torchlib.names import SCALER_SIGNS


class ClosureWithScaler(Rule):
    """`scaler.step()` gets a closure, or an optimizer that needs one.

    ## Why is this bad?
    An optimizer that takes a closure runs forward and backward again inside `step()`, possibly several times. The
    scaler has checked only the gradients of the first backward, so it can neither unscale nor skip what the closure
    makes: `scaler.step(optimizer, closure=closure)` raises `RuntimeError: Closure use is not currently supported if
    GradScaler is enabled`, a closure passed by position is run on gradients nobody unscales, and `LBFGS.step()`
    without one raises `TypeError`.

    ## Example
    ```python
    optimizer = torch.optim.LBFGS(model.parameters())
    scaler.step(optimizer, closure)
    ```

    ## Use instead
    Train in bfloat16, which needs no scaler:
    ```python
    def closure():
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(inputs), targets)
        loss.backward()
        return loss


    optimizer.step(closure)
    ```

    ## Fix safety
    There is no fix: choosing another optimizer or dtype is yours to decide.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step>
    """

    code = "AMP214"
    name = "closure-with-scaler"
    severity = Severity.ERROR
    claims = (Claim(Sign.CAN_RAISE, texts=("losure",)),)
    screen = (b".step(", (b"closure", b"LBFGS", b"lambda", b"def "), SCALER_SIGNS)
    reason = "The closure runs backward again inside the step, on gradients the scaler neither unscales nor checks."

    def on_scaler_step(self, event: ScalerStep) -> Iterator[Report]:
        advice = "Train in bfloat16 without a scaler, or use an optimizer that needs no closure."
        if event.closure is not None and event.scaler.created is not None:
            yield self.report(event, "scaler.step() cannot run a closure", advice=advice, at=event.closure)
        elif event.closure is None and event.optimizer.cls.endswith(".LBFGS"):
            yield self.report(event, "LBFGS needs a closure, which scaler.step() cannot run", advice=advice)

    def on_optimizer_step(self, event: OptimizerStep) -> Iterator[Report]:
        made = event.gradients.state is GradState.SCALED and event.gradients.consumed is None
        if event.closure and made and event.gradients.backward is not None:
            yield self.report(
                event,
                "the closure leaves gradients that carry the loss scale, and the optimizer steps on them",
                reason="The weights move by gradients 65536 times too large at first, and inf or NaN are not skipped.",
                advice="Call the closure first and scaler.step(optimizer) behind it, or train in bfloat16.",
                notes=event.steps_from(event.gradients.backward),
            )
