"""AMP222."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, ScaledLossRead

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

READS = {"summed": "added up", "logged": "reported", "compared": "compared"}


class ReadsScaledLoss(Rule):
    """The loss is logged, summed or compared with the loss scale still in it.

    ## Why is this bad?
    `scaler.scale(loss)` is for `backward()` alone. Once the name `loss` stands for the scaled loss, everything read
    from it is 65536 times too large at first, and changes by a factor of two whenever the scale does: averages, curves,
    early stopping and the choice of the best checkpoint all look at the scale instead of the model. Dividing by
    `scaler.get_scale()` is right only before `update()`, which may have changed the scale.

    ## Example
    ```python
    loss = scaler.scale(loss)
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    total += loss.item()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    total += loss.item()
    ```

    ## Fix safety
    Unsafe, since reported numbers change: the scaled loss no longer takes the place of the loss, backward scales it on
    the way.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.scale>
    """

    code = "AMP222"
    name = "scaled-loss-read"
    severity = Severity.WARNING
    screen = (b"scale(", (b"item(", b"float(", b"detach", b"print", b"log", b"add_scalar", b"<", b">", b".data"))
    fixable = Applicability.UNSAFE
    reason = "The number holds the loss scale (65536 at the start), which changes while training goes on."

    def on_scaled_loss_read(self, event: ScaledLossRead) -> Iterator[Report]:
        notes = [(event.scaled, "the loss is scaled here")]
        if event.update is not None:
            notes.append((event.update, "update() sets another scale"))
            notes.append((event.node, "and the division is by that one"))
            yield self.report(
                event,
                "the scaled loss is divided by a scale that update() may have changed",
                reason="Whenever update() changes the scale, the number is off by the factor it changed by.",
                advice="Read the loss before it is scaled, or keep the scale from before update().",
                notes=notes,
            )
            return
        notes.append((event.node, f"and {READS[event.how]} here"))
        yield self.report(
            event,
            f"the scaled loss is {READS[event.how]} instead of the loss",
            advice="Leave the loss as it is and write scaler.scale(loss).backward().",
            notes=notes,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, ScaledLossRead)
        binding = rewrite.source.parent(event.scaled)
        if not isinstance(binding, cst.Assign) or not isinstance(event.scaled, cst.Call) or event.divided:
            return None
        target, plain = binding.targets[0].target, event.scaled.args[0].value
        if not (isinstance(target, cst.Name) and isinstance(plain, cst.Name) and target.value == plain.value):
            return None
        calls = (call for calls in event.index.backwards.values() for call in calls)
        owners = {call.func.value for call in calls if isinstance(call.func, cst.Attribute)}
        owners = {owner for owner in owners if rewrite.same_function(owner, event.scaled)}
        (owner,) = owners if len(owners) == 1 else (None,)
        if not isinstance(owner, cst.Name) or owner.value != target.value:
            return None
        removed = rewrite.remove_statement(event.scaled)
        edits = (removed, rewrite.replace(owner, rewrite.text(event.scaled))) if removed else ()
        return Fix("Scale the loss for backward only", edits, Applicability.UNSAFE) if edits else None
