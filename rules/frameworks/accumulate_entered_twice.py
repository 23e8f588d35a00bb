"""AMP734."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import EnteredTwice
from amplint.semantics.values.values import number


class AccumulateEnteredTwice(Rule):
    """A micro-batch enters `accelerator.accumulate()` twice, so that its window ends after half as many.

    ## Why is this bad?
    Each `accumulate()` counts a micro-batch, whatever models it is passed. Two of them around one pass, one for each
    model, count two: the optimizer steps after half of `gradient_accumulation_steps` micro-batches, on every single one
    with two of them, while `accelerator.backward()` divides the loss by the whole number. So a step has the gradients
    of half the batch that is wanted, at half their size. Nothing raises. With an odd number the counts happen to meet,
    and nothing is reported.

    ## Example
    ```python
    accelerator = Accelerator(gradient_accumulation_steps=4)
    ...
    with accelerator.accumulate(unet), accelerator.accumulate(text_encoder):
        accelerator.backward(criterion(unet(text_encoder(inputs)), targets))
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    with accelerator.accumulate(unet, text_encoder):
        accelerator.backward(criterion(unet(text_encoder(inputs)), targets))
        optimizer.step()
        optimizer.zero_grad()
    ```
    Several models can be passed since accelerate 0.22. Where the number of micro-batches is not written out, this is an
    info: with one, nothing is wrong.

    ## References
    - <https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation>
    - <https://github.com/huggingface/accelerate/pull/1708>
    - <https://github.com/kxhit/zero123-hf/issues/7>
    """

    code = "AMP734"
    name = "accumulate-entered-twice"
    severity = Severity.WARNING
    screen = (b"ccelerator", b".accumulate(")
    reason = "Each accumulate() counts a micro-batch: the window ends early, and the loss is divided for all of it."

    def on_entered_twice(self, event: EnteredTwice) -> Iterator[Report]:
        steps = event.manager.steps
        known = number(steps) if steps is not None else 1
        if known is not None and known % 2:
            return
        yield self.report(
            event,
            "this micro-batch is counted twice" + ("" if known else ", which matters where a window has several"),
            advice="Pass all models to one accumulate().",
            notes=[(event.outer, "it has begun here already")],
            severity=None if known else Severity.INFO,
        )
