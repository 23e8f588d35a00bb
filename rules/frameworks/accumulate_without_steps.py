"""AMP733."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import NeverAccumulated, WindowOfOne


class AccumulateWithoutSteps(Rule):
    """An `Accelerator` begins micro-batches and gets no number of them in a window, or gets one and begins none.

    ## Why is this bad?
    Without `gradient_accumulation_steps` a window has one micro-batch: the optimizer steps on each, with the gradients
    of a fraction of the batch that is wanted, and what counts steps by the option, such as a scheduler, ends early.
    Nothing raises. `accelerate launch --gradient_accumulation_steps` and a configuration of DeepSpeed's set the number
    as well, so that this is an info.

    ## Example
    ```python
    accelerator = Accelerator(mixed_precision="bf16")
    steps = len(loader) // args.gradient_accumulation_steps
    ...
    with accelerator.accumulate(model):
        accelerator.backward(criterion(model(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=args.gradient_accumulation_steps)
    ```
    The reverse is reported as well: an `Accelerator` that gets `gradient_accumulation_steps`, and a loop that steps
    after each backward pass and enters no `accumulate()`. `accelerator.backward()` divides every loss by the number, so
    that each step has a fraction of the gradients of its batch.

    Nothing is reported where a file names no such number, assigns it to the `Accelerator` later, or reads DeepSpeed's.

    ## References
    - <https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation>
    - <https://github.com/huggingface/diffusers/pull/308>
    """

    code = "AMP733"
    name = "accumulate-without-steps"
    severity = Severity.INFO
    screen = (b"ccelerator", b"gradient_accumulation_steps", (b".accumulate(", b".backward("))
    reason = "A window has one micro-batch where neither the script nor the launcher says otherwise."

    def on_window_of_one(self, event: WindowOfOne) -> Iterator[Report]:
        yield self.report(
            event,
            "accumulate() accumulates nothing here: the Accelerator gets no gradient_accumulation_steps",
            advice="Pass it the number that the script is given.",
            notes=[(event.entered, "a micro-batch begins here")],
            claims=(),
        )

    def on_never_accumulated(self, event: NeverAccumulated) -> Iterator[Report]:
        yield self.report(
            event,
            "the Accelerator gets gradient_accumulation_steps, and nothing enters its accumulate()",
            reason="backward() divides each loss by the number, and the step that follows uses one micro-batch alone.",
            advice="Run each micro-batch, up to its zero_grad(), within `with accelerator.accumulate(model):`.",
            notes=[(event.step, "the step that follows at once")],
            claims=(),
        )
