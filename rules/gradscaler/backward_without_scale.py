"""AMP207."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits import protocol
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, Gradients, GradState, PairEvent, ScalerStep, Unscale
from amplint.source import syntax as cst
from amplint.torchlib.names import SCALER_SIGNS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class BackwardWithoutScale(Rule):
    """Backward runs on the loss itself, and the scaler then unscales or steps.

    ## Why is this bad?
    `scaler.step()` and `unscale_()` divide the gradients by the loss scale. Gradients of a loss that was never
    multiplied by it end up 65536 times too small: the model barely learns, and nothing raises. A scaler that has scaled
    nothing at all before has no scale yet: its first call raises `AssertionError: Attempted step but _scale is None`.

    ## Example
    ```python
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    The loss is scaled before backward, which the division behind it takes back. There is no repair where the scaler can
    be None, and where a pass on the scaled loss follows, which has to move.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.scale>
    """

    code = "AMP207"
    name = "backward-without-scale"
    severity = Severity.ERROR
    screen = (b"backward(", (b".step(", b"unscale_"), SCALER_SIGNS)
    fixable = Applicability.SAFE
    reason = (
        "The scaler divides the gradients by a scale they never carried: they end up 65536 times too small at first."
    )

    def on_scaler_step(self, event: ScalerStep) -> Iterator[Report]:
        yield from self._check(event, "step()")

    def on_unscale(self, event: Unscale) -> Iterator[Report]:
        yield from self._check(event, "unscale_()")

    def _check(self, event: PairEvent, call: str) -> Iterator[Report]:
        if not event.divides or event.gradients.consumed is not None:
            return
        gradients = _plain(event)
        if gradients.again is not None:
            yield self.report(
                event,
                "backward runs once more on the same loss, without its scale",
                reason="The first pass has freed the graph, so that this one raises an error.",
                advice="Remove it.",
                at=gradients.raw,
                notes=[(gradients.again, "the pass on the scaled loss")],
            )
        elif gradients.raw is not None and gradients.discarded is None:
            yield self.report(
                event,
                f"backward runs on a loss without its scale, and the scaler's {call} unscales the gradients",
                reason=f"Nothing is scaled before: {call} raises AssertionError, as there is no scale yet."
                if event.first
                else "",
                advice="Move the pass on the scaled loss here, in place of the plain one where there is a scaler."
                if event.behind is not None
                else "Write scaler.scale(loss).backward().",
                at=gradients.raw,
                notes=[
                    *event.steps_from(gradients.raw),
                    (event.node, "divides by the scale here"),
                    *([(event.behind, "the pass on the scaled loss, too late")] if event.behind is not None else []),
                ],
            )
        if event.foreign is not None:
            yield self.report(
                event,
                f"{call} unscales gradients whose loss was scaled by another scaler",
                reason="The scales of two scalers go apart, and inf and NaN are noted in the one that does not step.",
                advice="Use the scaler whose scale() made these gradients for unscale_(), step() and update() too.",
                notes=event.steps_from(event.foreign.backward),
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, PairEvent)
        gradients = _plain(event)
        backward = gradients.raw if gradients.again is None else None
        if not isinstance(backward, cst.Call) or not isinstance(backward.func, cst.Attribute):
            return None
        if event.behind is not None:
            return None
        scaler = protocol.spelling(event.index.scalers.get(event.scaler.symbol, []), backward, rewrite)
        if scaler in event.index.absent.get(backward, ()) and protocol.choice_of_scaling(backward, rewrite) is None:
            return None
        loss = backward.func.value
        if scaler is None:
            return None
        scaled, choice = protocol.scaled(loss, scaler, rewrite), protocol.choice_of_scaling(backward, rewrite)
        if choice is None:
            return Fix("Scale the loss", (rewrite.replace(loss, scaled),))
        where = protocol.where_scaled(choice, backward, rewrite) if not backward.args else None
        edit = protocol.instead_where(where, f"{scaled}.backward()", backward, rewrite) if where else None
        return Fix("Scale the loss where the scaler steps", (edit,)) if edit is not None else None


def _plain(event: PairEvent) -> Gradients:
    """The latest backward pass on an unscaled loss, or the latest of all if there is none."""
    return next((one for one in event.gradients.passes if one.state is GradState.RAW), event.gradients)
