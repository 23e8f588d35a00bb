"""AMP743."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ClippedScaled


class ManualClipKeepsScale(Rule):
    """A Lightning module clips or measures gradients by hand which still carry the loss scale.

    ## Why is this bad?
    With `precision="16-mixed"`, `manual_backward` scales the loss, and the gradients are unscaled only when the
    optimizer steps. `self.clip_gradients` takes them as they are, 65536 times too large: a norm is nearly always over
    the limit, so that every step becomes as long as if its gradient had the norm `0.5 / 65536`. Nothing raises or
    warns. Where Lightning optimises by itself, it clips behind the unscaling, and `bf16-mixed` has no scale.

    ## Example
    ```python
    self.manual_backward(loss)
    self.clip_gradients(optimizer, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
    optimizer.step()
    ```

    ## Use instead
    ```python
    def on_before_optimizer_step(self, optimizer):
        self.clip_gradients(optimizer, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
    ```
    This hook runs behind the unscaling, `on_after_backward` in front of it, whoever runs the backward pass;
    `precision="bf16-mixed"` has no scale. Do not call `unscale_` by hand: the step does so again, which raises. Where
    the `Trainer` is made elsewhere, or a setting decides on its precision, the finding is an info that assumes float16.

    ## References
    - <https://lightning.ai/docs/pytorch/stable/model/manual_optimization.html>
    - <https://github.com/Lightning-AI/pytorch-lightning/issues/18089>
    """

    code = "AMP743"
    name = "manual-clip-keeps-scale"
    severity = Severity.ERROR
    only_numbers = True
    screen = ((b"automatic_optimization", b"on_after_backward"), (b"manual_backward", b"on_after_backward"), b"grad")
    reason = "Lightning unscales the gradients when the optimizer steps, behind this call."

    def on_clipped_scaled(self, event: ClippedScaled) -> Iterator[Report]:
        yield self.report(
            event,
            f"gradients are {'measured' if event.reads else 'clipped'} with the loss scale in them",
            advice=("Measure them" if event.reads else "Clip")
            + ' in on_before_optimizer_step(), or ask for "bf16-mixed", which has no scale.',
            severity=Severity.WARNING if event.reads else None,
            notes=[(event.made, "this Trainer scales the loss")] if event.made is not None else [],
        )
