"""AMP215."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, PairEvent, ScalerUpdate
from amplint.source import syntax as cst
from amplint.torchlib.names import SCALER_SIGNS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class UpdatePerOptimizer(Rule):
    """`update()` runs before a step that belongs to the same scale, or twice in a row.

    ## Why is this bad?
    `update()` may change the scale. Gradients that were made before it carry the old one: a `step()` or `unscale_()`
    behind it divides them by the wrong number whenever the scale has just moved. An `update()` with no `step()` or
    `unscale_()` since the last one raises `AssertionError: No inf checks were recorded prior to update`.

    ## Example
    ```python
    scaler.scale(loss_g + loss_d).backward()
    scaler.step(optimizer_g)
    scaler.update()
    scaler.step(optimizer_d)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss_g + loss_d).backward()
    scaler.step(optimizer_g)
    scaler.step(optimizer_d)
    scaler.update()
    ```

    ## Fix safety
    The early `update()` is removed when a later one stands behind the step, and moved behind the step otherwise.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-multiple-models-losses-and-optimizers>
    """

    code = "AMP215"
    name = "update-per-optimizer"
    severity = Severity.ERROR
    claims = (Claim(Sign.CAN_RAISE, texts=("No inf checks",)),)
    screen = (b".update(", SCALER_SIGNS)
    fixable = Applicability.SAFE
    reason = "update() may change the scale, and it accepts no call without a step() or unscale_() before it."

    def on_scaler_step(self, event: PairEvent) -> Iterator[Report]:
        yield from self._late(event)

    def on_unscale(self, event: PairEvent) -> Iterator[Report]:
        if any(one.backward is not None for one in event.gradients.passes):
            yield from self._late(event)

    def _late(self, event: PairEvent) -> Iterator[Report]:
        late = (one for one in event.gradients.passes if one.outdated is not None and one.carries(event.scaler))
        gradients = next(late, None) if event.divides else None
        if gradients is not None and gradients.outdated is not None and gradients.consumed is None:
            yield self.report(
                event,
                "update() runs between a backward and the step that uses its gradients",
                advice="Call update() once, after the steps of all optimizers.",
                at=gradients.outdated,
                notes=[*event.steps_from(gradients.backward), (event.node, "divides by the new scale here")],
            )

    def on_scaler_update(self, event: ScalerUpdate) -> Iterator[Report]:
        if event.pending is not None and not event.checked:
            message = "update() runs before any step() or unscale_() of the gradients made since the last one"
            notes = event.steps_from(event.pending)
            yield self.report(event, message, advice="Call update() after the step.", notes=notes)
        elif event.previous is not None and not event.checked:
            message = "update() runs again without a step() or unscale_() since the last one"
            yield self.report(event, message, advice="Call update() once.", notes=event.steps_from(event.previous))

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if isinstance(event, ScalerUpdate):
            first = event.previous if event.pending is None else None
            edit = rewrite.remove_statement(event.node) if first and rewrite.shares_block(first, event.node) else None
            return Fix("Remove the second update()", (edit,)) if edit else None
        assert isinstance(event, PairEvent)
        early = event.gradients.outdated
        if early is None or _follows(early, event.node, rewrite) or not rewrite.shares_block(early, event.node):
            return None
        later = [one for one in event.index.updates.get(event.scaler.symbol, []) if _follows(one, event.node, rewrite)]
        if not all(rewrite.shares_block(node, early) for node in (event.node, *later)):
            return None  # a statement in a branch does not run whenever this update() does
        if later:
            edit = rewrite.remove_statement(early)
            return Fix("Keep only the last update()", (edit,)) if edit else None
        edits = rewrite.move_statement(early, after=event.node)
        return Fix("Move update() after the step", tuple(edits)) if edits else None


def _follows(update: cst.CSTNode, step: cst.CSTNode, rewrite: Rewriter) -> bool:
    return rewrite.shares_block(update, step) and rewrite.span(update).start > rewrite.span(step).start
