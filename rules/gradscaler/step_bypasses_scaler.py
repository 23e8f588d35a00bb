"""AMP206."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits import protocol
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, GradState, OptimizerStep, ScaledWithoutRegion, ScriptEnd
from amplint.source import syntax as cst
from amplint.torchlib.optimizers import NORMALISING

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_HIDDEN = (
    "Inf and NaN gradients are not skipped. The optimizer divides by the size of its gradients, which hides their "
    "factor and makes epsilon and weight decay count for less."
)


class StepBypassesScaler(Rule):
    """`optimizer.step()` runs on gradients that carry the loss scale.

    ## Why is this bad?
    The weights move by gradients 65536 times too large (Adam hides the factor, not the damage to its epsilon and weight
    decay), and gradients that overflowed to inf or NaN are applied instead of being skipped. The latter holds after
    `scaler.unscale_(optimizer)` too, which only remembers them, and for a second step behind `scaler.step(optimizer)`.

    Without autocast in sight, where nothing updates the scaler and an optimizer such as Adam divides its constant
    factor out, this is an info.

    ## Example
    ```python
    scaler.scale(loss).backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    The step goes through the scaler, which unscales the gradients unless `unscale_()` has, and calls `optimizer.step()`
    when all of them are finite; `update()` is added where the function does not call it yet. A second step with the
    same gradients is removed.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step>
    """

    code = "AMP206"
    name = "step-bypasses-scaler"
    severity = Severity.ERROR
    only_numbers = True
    screen = (b".step(", (b"scale(", b"unscale_("))
    fixable = Applicability.SAFE
    reason = "The weights move by gradients multiplied by the loss scale, and inf or NaN gradients are not skipped."

    def __init__(self) -> None:
        self._hidden: dict[cst.CSTNode, OptimizerStep] = {}
        self._without_region: set[cst.CSTNode] = set()

    def on_optimizer_step(self, event: OptimizerStep) -> Iterator[Report]:
        gradients = event.gradients
        if event.closure:
            return
        if gradients.consumed is not None:
            if gradients.scaler and gradients.consumed in event.index.steps.get(event.optimizer.symbol, []):
                yield self.report(
                    event,
                    "optimizer.step() applies gradients with which the scaler has stepped already",
                    reason="Every update is made twice, also one that the scaler has skipped for its inf or NaN.",
                    advice="Remove it: scaler.step(optimizer) steps the optimizer.",
                    notes=event.steps_from(gradients.consumed),
                )
        elif gradients.state is GradState.SCALED and gradients.backward is not None and not event.disputed:
            if event.optimizer.cls.rpartition(".")[2] in NORMALISING:
                self._hidden.setdefault(event.node, event)
            else:
                yield self._steps_scaled(event)
        elif gradients.state is GradState.UNSCALED and event.overlooked is not None:
            yield self.report(
                event,
                "optimizer.step() runs without asking the scaler whether the gradients overflowed",
                reason="unscale_() looks for inf and NaN, but only scaler.step() skips the step because of them.",
                advice="Write scaler.step(optimizer), then scaler.update().",
                notes=event.steps_from(event.overlooked),
            )

    def on_scaled_without_region(self, event: ScaledWithoutRegion) -> Iterator[Report]:
        self._without_region.add(event.backward)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for step in self._hidden.values():
            yield self._steps_scaled(step)

    def _steps_scaled(self, event: OptimizerStep) -> Report:
        return self.report(
            event,
            "optimizer.step() runs on gradients that carry the loss scale",
            reason=_HIDDEN if event.node in self._hidden else "",
            advice=f"{'Where the loss was scaled, write' if event.decisions else 'Write'} scaler.step(optimizer), then "
            "scaler.update().",
            notes=event.steps_from(event.gradients.backward),
            severity=Severity.INFO if self._is_meant(event) else None,
        )

    def _is_meant(self, event: OptimizerStep) -> bool:
        """Whether a float32 script scales by a constant that its optimizer divides out again."""
        scaler = event.gradients.scaler
        constant = scaler is not None and scaler.symbol not in event.index.updates
        return constant and event.node in self._hidden and event.gradients.backward in self._without_region

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, OptimizerStep)
        choice = protocol.choice_of_scaling(event.node, rewrite)
        if event.gradients.consumed is not None:
            if choice is not None:
                return None
            edit = rewrite.remove_statement(event.node)
            return Fix("Remove the second step", (edit,)) if edit else None
        assert event.gradients.scaler is not None
        symbol = event.gradients.scaler.symbol
        scaler = protocol.spelling(event.index.scalers.get(symbol, []), event.node, rewrite)
        if scaler is None or event.call.args:
            return None
        if choice is not None:
            return self._where_scaled(event, choice, scaler, rewrite)
        edits = [protocol.step(event.node, event.optimizer_node, scaler, rewrite)]
        if not any(rewrite.same_function(node, event.node) for node in event.index.updates.get(symbol, [])):
            update = protocol.update(event.node, scaler, rewrite)
            if update is None:
                return None
            edits.append(update)
        safe = Applicability.UNSAFE if self._is_meant(event) else Applicability.SAFE
        return Fix("Step through the scaler", tuple(edits), safe)

    def _where_scaled(self, event: OptimizerStep, choice: cst.If, scaler: str, rewrite: Rewriter) -> Fix | None:
        """The repair beside a choice between scaled and plain work, of which the other side steps as before."""
        assert event.gradients.scaler is not None
        where = protocol.where_scaled(choice, event.node, rewrite)
        if where is None:
            return None
        updates = event.index.updates.get(event.gradients.scaler.symbol, [])
        edit = protocol.step_instead_where(
            where, event.node, event.optimizer_node, scaler, rewrite,
            updates=not any(rewrite.same_function(node, event.node) for node in updates),
        )  # fmt: skip
        return Fix("Step through the scaler where the loss was scaled", (edit,)) if edit is not None else None
