"""AMP735."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import AveragedInWindow
from amplint.semantics.values.values import Const


class AverageOfMicroBatches(Rule):
    """A running average of weights is updated on every micro-batch of an `Accelerator`, and not on every step.

    ## Why is this bad?
    Inside of `accelerator.accumulate(model)` the prepared optimizer steps only where a window of micro-batches ends,
    and between steps weights do not change. An average that is updated on each micro-batch takes the same weights
    several times: with a decay of 0.9999 and a window of 8, it decays as one of 0.9992 does, and covers an eighth of
    the steps that are wanted. Its warmup and `update_every` count micro-batches, too. Nothing raises.

    ## Example
    ```python
    with accelerator.accumulate(model):
        accelerator.backward(criterion(model(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()
    ema.step(model.parameters())
    ```

    ## Use instead
    ```python
    with accelerator.accumulate(model):
        accelerator.backward(criterion(model(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        ema.step(model.parameters())
    ```
    Known are the averages of PyTorch, diffusers, timm and ema-pytorch. Where the number of micro-batches is not written
    out, or left to `accelerate launch`, this is an info: with one, nothing is wrong.

    ## References
    - <https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation>
    - <https://github.com/SWivid/F5-TTS/issues/631>
    - <https://github.com/lucidrains/rectified-flow-pytorch/pull/46>
    """

    code = "AMP735"
    name = "average-of-micro-batches"
    severity = Severity.WARNING
    screen = (b"ccelerator", b".accumulate(", (b"EMA", b"Ema", b"AveragedModel"), (b".step(", b".update"))
    reason = "Weights change only where a window of micro-batches ends, and the average decays before."

    def on_averaged_in_window(self, event: AveragedInWindow) -> Iterator[Report]:
        certain = isinstance(event.manager.steps, Const)
        yield self.report(
            event,
            "the average of weights is updated on every micro-batch"
            + ("" if certain else ", which matters where a window has several"),
            advice="Update it where accelerator.sync_gradients is true.",
            notes=[(event.entered, "a micro-batch begins here")],
            severity=None if certain else Severity.INFO,
        )
