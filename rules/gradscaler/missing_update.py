"""AMP203."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from amplint.edits import protocol
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, NeverUpdated, OptState, OverflowKept, PairEvent, ScalerStep, Unscale
from amplint.source import syntax as cst
from amplint.torchlib.names import SCALER_SIGNS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class MissingUpdate(Rule):
    """A path reaches the next iteration's `step()` or `unscale_()` without `update()`.

    ## Why is this bad?
    `scaler.update()` ends an iteration: it adjusts the loss scale and lets `unscale_()` and `step()` be called again.
    Without it the next `step()` raises `RuntimeError: step() has already been called since the last update()`. When it
    is missing on a rare path only, the run dies whenever that path is first taken. With `enabled=False` nothing
    happens, which hides the bug until mixed precision is switched on.

    A loop that tests scaled gradients for inf itself, and leaves out `step()` and `update()` where it finds some, never
    lowers the loss scale: the next batches overflow at the same scale, and training stalls without an error.

    ## Example
    ```python
    for images, labels in loader:
        with torch.autocast("cuda"):
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
    ```

    ## Use instead
    ```python
    for images, labels in loader:
        with torch.autocast("cuda"):
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    `update()` is moved behind the last step of the iteration, which otherwise raises in the next one. It is added there
    where there is none, or where that update follows another step, too, whose backward pass comes in between.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.update>
    """

    code = "AMP203"
    name = "missing-update"
    severity = Severity.ERROR
    yields_to = ("AMP301",)
    claims = (Claim(Sign.CAN_RAISE, texts=("already been called", "called after step()")),)
    screen = ((b"unscale_", b".step("), SCALER_SIGNS)
    fixable = Applicability.SAFE
    reason = "Until update() is called, PyTorch refuses another step() or unscale_() for the same optimizer."

    def on_scaler_step(self, event: ScalerStep) -> Iterator[Report]:
        if event.stage.state is OptState.STEPPED:
            yield from self.on_unscale(event)

    def on_unscale(self, event: Unscale | ScalerStep) -> Iterator[Report]:
        if event.inside_window:
            return
        if event.stage.refuses and not event.same_iteration and event.latest is not None:
            yield self.report(
                event,
                "no update() follows on a path that leads to the next iteration, where PyTorch raises RuntimeError",
                advice="Call scaler.update() once at the end of every iteration that called unscale_() or step().",
                at=event.latest,
                notes=[*event.steps_from(event.stage.node), (event.node, "raises here")],
            )

    def on_never_updated(self, event: NeverUpdated) -> Iterator[Report]:
        message = "nothing ever calls update() on this scaler, so the next call of this code raises RuntimeError"
        if not event.whole:
            message = "unless an unseen base class calls update(), the next call of this code raises RuntimeError"
        yield self.report(
            event,
            message,
            advice="Call scaler.update() after the step.",
            severity=None if event.whole else Severity.INFO,
            notes=[(event.scaler.created, "the scaler, made here")] if event.scaler.created is not None else [],
        )

    def on_overflow_kept(self, event: OverflowKept) -> Iterator[Report]:
        yield self.report(
            event,
            "where gradients overflow, no step and no update() follows, so the loss scale that they overflow at stays",
            advice="Leave the test to scaler.step(), which skips a step with inf or NaN, and call update() after it.",
            reason="Only update() lowers the loss scale, and only if step() or unscale_() has found the overflow.",
            at=event.condition,
            severity=Severity.WARNING,
            claims=(),
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if isinstance(event, OverflowKept):
            return None
        assert isinstance(event, (PairEvent, NeverUpdated))
        last = event.latest if isinstance(event, PairEvent) else event.node
        if last is None or (isinstance(event, PairEvent) and event.stage.state is not OptState.STEPPED):
            return None
        for update in event.index.updates.get(event.scaler.symbol, []):
            late = rewrite.shares_block(update, last) and rewrite.span(update).start > rewrite.span(last).start
            if late and not update.args:
                later = _between(last, update, event.index.steps, rewrite)
                if not later:
                    edits = rewrite.move_statement(update, after=last)
                    return Fix("Move update() behind the step", tuple(edits)) if edits else None
                if not _between(last, later[0], event.index.backwards, rewrite):
                    return None  # the update would change the scale of gradients that wait for a step
        scaler = protocol.spelling(event.index.scalers.get(event.scaler.symbol, []), last, rewrite)
        edit = protocol.update(last, scaler, rewrite) if scaler else None
        return Fix("Add update() after the step", (edit,)) if edit else None


def _between(
    start: cst.CSTNode, end: cst.CSTNode, calls: Mapping[int, list[cst.Call]], rewrite: Rewriter
) -> list[cst.Call]:
    """Those of the `calls` that stand between `start` and `end` in their function, in the order of the text."""
    first, last = rewrite.span(start).start, rewrite.span(end).start
    near = [call for several in calls.values() for call in several if rewrite.same_function(call, start)]
    found = [call for call in near if first < rewrite.span(call).start < last]
    return sorted(found, key=lambda call: rewrite.span(call).start)
