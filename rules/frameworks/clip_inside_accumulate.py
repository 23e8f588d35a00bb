"""AMP731."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ClippedEachTime, Event
from amplint.semantics.values.values import Const

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class ClipInsideAccumulate(Rule):
    """An `Accelerator` that accumulates clips gradients on every micro-batch.

    ## Why is this bad?
    Inside of `accelerator.accumulate(model)` the prepared optimizer steps, and clears gradients, only where a window of
    micro-batches ends. `clip_grad_norm_` does its work each time: it scales sums down that are not whole yet, so that
    early micro-batches lose weight against late ones. With float16 it also unscales each time, and the second time
    raises `unscale_() has already been called on this optimizer since the last update().`

    `step()` and `zero_grad()` need no condition, and nothing is asked of them.

    ## Example
    ```python
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=4)
    ...
    with accelerator.accumulate(model):
        accelerator.backward(criterion(model(inputs), targets))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    with accelerator.accumulate(model):
        accelerator.backward(criterion(model(inputs), targets))
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    ```
    Where the number of micro-batches is not written out, or left to `accelerate launch`, this is an info: with one,
    nothing is wrong.

    ## Fix safety
    The condition goes around the call. There is no fix where what the call returns is used.

    ## References
    - <https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation>
    - <https://github.com/huggingface/accelerate/issues/641>
    - <https://github.com/huggingface/diffusers/pull/721>
    """

    code = "AMP731"
    name = "clip-inside-accumulate"
    severity = Severity.ERROR
    screen = (b"accelerat", b"accumulate(", b"clip_grad")
    fixable = Applicability.SAFE
    reason = "Gradients are whole, and the scale is renewed, only where a window of micro-batches ends."

    def on_clipped_each_time(self, event: ClippedEachTime) -> Iterator[Report]:
        scaled, certain = event.manager.precision == "float16", isinstance(event.manager.steps, Const)
        yield self.report(
            event,
            "gradients are clipped on every micro-batch"
            + ("" if certain else ", which matters where a window has several"),
            reason="The second call raises: unscale_() has already been called." if scaled else "",
            advice="Clip where accelerator.sync_gradients is true.",
            severity=None if scaled and certain else Severity.WARNING if certain else Severity.INFO,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, ClippedEachTime)
        alone = rewrite.statement_of(event.call)
        if event.spelled is None or alone is None or rewrite.text(alone).strip() != rewrite.text(event.call):
            return None
        edit = rewrite.wrap_statement(event.call, f"if {event.spelled}.sync_gradients")
        return Fix("Clip where the window ends", (edit,)) if edit is not None else None
