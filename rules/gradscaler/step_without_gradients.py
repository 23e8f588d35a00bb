"""AMP221."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import GradState, OptState, ScalerStep, ScalerUpdate, SteppedAnother
from amplint.torchlib.names import SCALER_SIGNS


class StepWithoutGradients(Rule):
    """`scaler.step()` or `update()` runs where no backward can have left gradients.

    ## Why is this bad?
    `scaler.step()` looks at every gradient for inf and NaN. When `zero_grad()` has just cleared them, or no backward
    has run yet, there is none to look at and it raises `AssertionError: No inf checks were recorded for this
    optimizer`. An `update()` that no `step()` or `unscale_()` precedes raises `AssertionError: No inf checks were
    recorded prior to update`. The same happens where `unscale_()` and `step()` get two different optimizers, of which
    the loss reaches the first alone.

    ## Example
    ```python
    scaler.scale(loss).backward()
    optimizer.zero_grad()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    There is no fix: where the missing backward belongs cannot be guessed.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step>
    """

    code = "AMP221"
    name = "step-without-gradients"
    severity = Severity.ERROR
    claims = (Claim(Sign.CAN_RAISE, texts=("No inf checks", "_scale is None")),)
    screen = ((b".step(", b".update("), SCALER_SIGNS)
    every_path = True
    reason = "The scaler finds no gradient to check for inf and NaN and raises AssertionError."

    def on_scaler_step(self, event: ScalerStep) -> Iterator[Report]:
        gradients = event.gradients
        if event.stage.unchecked:
            yield self.report(
                event,
                "step() runs after an unscale_() that found no gradients, and does not look at them again",
                advice="Run backward on the scaled loss before unscale_().",
                notes=event.steps_from(event.stage.node),
            )
        elif gradients.state is GradState.NONE and event.stage.state is OptState.READY:
            cleared = gradients.cleared is not None
            message = (
                "step() runs after zero_grad() has cleared the gradients"
                if cleared
                else "step() runs before any backward"
            )
            yield self.report(
                event,
                message,
                advice="Run backward on the scaled loss between zero_grad() and step().",
                notes=event.steps_from(gradients.cleared) if cleared else (),
            )

    def on_stepped_another(self, event: SteppedAnother) -> Iterator[Report]:
        why = f"nothing else names {event.taken}" if event.absent else f"nothing ever steps {event.meant}"
        other = "no such attribute is assigned here" if event.absent else "step() may find none in the other optimizer"
        yield self.report(
            event,
            f"unscale_() is called for {event.meant}, step() for {event.taken}, and {why}",
            reason=f"The gradients that were unscaled are not used, and {other}.",
            advice=f"Step the optimizer whose gradients the loss has made: scaler.step({event.meant}).",
            notes=[(event.unscaled, f"unscales the gradients of {event.meant}")],
        )

    def on_scaler_update(self, event: ScalerUpdate) -> Iterator[Report]:
        if not event.checked and event.previous is None and event.pending is None:
            yield self.report(
                event,
                "update() runs, and no step() or unscale_() of this scaler comes before it",
                advice="Call scaler.step(optimizer) before scaler.update().",
            )
