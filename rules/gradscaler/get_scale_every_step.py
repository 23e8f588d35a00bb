"""AMP219."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ScaleLogged


class GetScaleEveryStep(Rule):
    """`get_scale()` is called in every iteration, only to log the scale.

    ## Why is this bad?
    The scale lives on the GPU. `get_scale()` fetches it, and to do so waits until the GPU has finished all the work
    that was queued before: the CPU cannot prepare the next step meanwhile, and small models train noticeably slower.
    The scale changes rarely, so a log of every iteration tells hardly more than one of every hundredth. Reading the
    scale to find out whether a step was skipped is another matter and not reported.

    ## Example
    ```python
    scaler.step(optimizer)
    scaler.update()
    writer.add_scalar("scale", scaler.get_scale(), step)
    ```

    ## Use instead
    ```python
    scaler.step(optimizer)
    scaler.update()
    if step % 100 == 0:
        writer.add_scalar("scale", scaler.get_scale(), step)
    ```

    ## Fix safety
    There is no fix: how often to log is for you to say.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.get_scale>
    """

    code = "AMP219"
    name = "get-scale-every-step"
    severity = Severity.INFO
    screen = (b"get_scale(", (b".step(", b"update("))
    reason = "Reading the scale makes the CPU wait until the GPU has caught up."

    def on_scale_logged(self, event: ScaleLogged) -> Iterator[Report]:
        yield self.report(
            event,
            "get_scale() waits for the GPU in every iteration, only to log the scale",
            advice="Log it every so many iterations.",
        )
