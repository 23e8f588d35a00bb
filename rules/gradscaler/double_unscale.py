"""AMP201."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, GradState, OptState, Unscale, UnscaledAgain

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class DoubleUnscale(Rule):
    """`unscale_()` runs twice for one optimizer before `update()`.

    ## Why is this bad?
    `scaler.unscale_(optimizer)` divides the gradients by the loss scale in place and may be called once per optimizer
    and iteration. The second call raises `RuntimeError: unscale_() has already been called on this optimizer since the
    last update()`. When `update()` is missing on one path, that second call is the one of a later iteration, and the
    run dies long after it started.

    An `Accelerator` in float16 unscales the gradients of all its optimizers each time it clips, and calls `update()` in
    `optimizer.step()`. So it may clip once per step: not once for each model, nor for each micro-batch that a loop of
    the script adds up.

    ## Example
    ```python
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
    ```

    ## Use instead
    ```python
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
    torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
    ```

    ## Fix safety
    The second call is removed only where the first one always comes before it in the same iteration; it could only
    raise, so nothing is lost.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.unscale_>
    - `Accelerator.unscale_gradients` of accelerate 0.12 to 1.15
    """

    code = "AMP201"
    name = "double-unscale"
    severity = Severity.ERROR
    yields_to = ("AMP203", "AMP301")
    claims = (Claim(Sign.CAN_RAISE, texts=("already been called",)),)
    screen = ((b"unscale_", b"accelerat"), (b"unscale_", b"clip_grad"))
    fixable = Applicability.SAFE
    reason = "PyTorch allows one unscale_() per optimizer between two update() calls; the second raises RuntimeError."

    def on_unscale(self, event: Unscale) -> Iterator[Report]:
        if event.stage.state is not OptState.UNSCALED or event.stage.node is None:
            return
        if event.inside_window and not event.same_iteration:
            return
        if event.same_iteration:
            message = "unscale_() runs a second time for this optimizer before update()"
            advice = "Call unscale_() once, before everything that reads or clips the gradients."
        else:
            message = "unscale_() runs again for this optimizer in the next iteration, and no update() came between"
            advice = "Call scaler.update() on every path that called unscale_(), also where the step is left out."
        yield self.report(event, message, advice=advice, notes=event.steps_from(event.stage.node))

    def on_unscaled_again(self, event: UnscaledAgain) -> Iterator[Report]:
        in_loop = event.before is event.node
        message = "the Accelerator unscales these gradients a second time before a step"
        yield self.report(
            event,
            message + (", where the loop adds several micro-batches up" if in_loop else ""),
            advice="Clip once, behind the last backward pass and before the step.",
            notes=[] if in_loop else event.steps_from(event.before),
            severity=Severity.WARNING if in_loop else None,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, Unscale):
            return None
        first = event.stage.node
        redundant = event.same_iteration and event.gradients.state is GradState.UNSCALED
        if first is None or first is event.node or not redundant or not rewrite.shares_block(first, event.node):
            return None
        edit = rewrite.remove_statement(event.node)
        return Fix("Remove the second unscale_()", (edit,)) if edit else None
