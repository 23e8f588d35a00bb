"""AMP202."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import ClippedNothing, Event, GradientUse, GradState, OptState, Unscale
from amplint.source import syntax as cst
from amplint.torchlib.names import SCALER_SIGNS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class UnscaleAfterStep(Rule):
    """`unscale_()`, or the clipping it is for, comes after `scaler.step()`.

    ## Why is this bad?
    `scaler.step(optimizer)` unscales the gradients itself and updates the weights. An `unscale_()` behind it raises
    `RuntimeError: unscale_() is being called after step()`. Clipping behind it raises nothing and does nothing: the
    weights have moved by the unclipped gradients already.

    ## Example
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ```

    The same is reported of `accelerator.clip_grad_norm_()` behind `optimizer.zero_grad()`.

    ## Fix safety
    Moving the call changes the training results (that is the point), so the fix is unsafe.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping>
    """

    code = "AMP202"
    name = "unscale-after-step"
    severity = Severity.ERROR
    claims = (Claim(Sign.CAN_RAISE, texts=("called after step()",)),)
    screen = ((b"unscale_", b"clip_grad", b".grad"), b".step(", (*SCALER_SIGNS, b"Accelerator"))
    fixable = Applicability.UNSAFE

    def on_unscale(self, event: Unscale) -> Iterator[Report]:
        if event.stage.state is OptState.STEPPED and event.same_iteration:
            yield self.report(
                event,
                "unscale_() runs after step() for the same optimizer",
                reason="step() has unscaled and used these gradients already; PyTorch raises RuntimeError.",
                advice="Move unscale_() between backward() and step().",
                notes=event.steps_from(event.stage.node),
            )

    def on_gradient_use(self, event: GradientUse) -> Iterator[Report]:
        gradients = event.gradients
        late = gradients.consumed is not None and gradients.state in (GradState.SCALED, GradState.UNSCALED)
        if event.mutates and late and gradients.scaler is not None:
            yield self.report(
                event,
                f"gradients are {event.what} after the step that used them",
                reason="The weights have already moved by the gradients as they were; this changes nothing.",
                advice="Call unscale_() and clip between backward() and step().",
                notes=event.steps_from(gradients.backward),
            )

    def on_clipped_nothing(self, event: ClippedNothing) -> Iterator[Report]:
        yield self.report(
            event,
            "gradients are clipped after they were cleared",
            reason="The step has used them as they were; this changes nothing.",
            advice="Clip behind accelerator.backward(), where accelerator.sync_gradients holds, and then step.",
            notes=[(event.cleared, "they are cleared here")],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        step = _step_before(event)
        if step is None or not rewrite.shares_block(step, event.node) or not rewrite.shares_block(event.node, step):
            return None
        edits = rewrite.move_statement(event.node, before=step)
        return Fix("Move it before the step", tuple(edits), Applicability.UNSAFE) if edits else None


def _step_before(event: Event) -> cst.CSTNode | None:
    if isinstance(event, Unscale):
        return event.stage.node
    return event.gradients.consumed if isinstance(event, GradientUse) else None
