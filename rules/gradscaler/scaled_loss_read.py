"""AMP222."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import multiplied_back, scaled_for_backward
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import DividedLossRead, Event, ScaledLossRead, ScriptEnd
from amplint.torchlib.names import SCALER_SIGNS

if TYPE_CHECKING:
    from amplint.source import syntax as cst
    from amplint.source.rewrite import Rewriter

READS = {
    "summed": "added up",
    "averaged": "averaged",
    "logged": "reported",
    "compared": "compared",
    "returned": "returned",
}


class ReadsScaledLoss(Rule):
    """The loss is logged, summed or compared with the loss scale in it, or divided for gradient accumulation.

    ## Why is this bad?
    `scaler.scale(loss)` is for `backward()` alone. Once the name `loss` stands for the scaled loss, everything read
    from it is 65536 times too large at first, and changes by a factor of two whenever the scale does: averages, curves,
    early stopping and the choice of the best checkpoint all look at the scale instead of the model. Dividing by
    `scaler.get_scale()` is right only before `update()`, which may have changed the scale.

    A loss divided by the number of micro-batches is too small by that number, where it is logged by itself or averaged
    over all micro-batches; the sum over one window is right.

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
    Unsafe, since reported numbers change: the loss is scaled on the way to backward only, or a sum of divided losses is
    multiplied back.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.scale>
    """

    code = "AMP222"
    name = "scaled-loss-read"
    severity = Severity.WARNING
    screen = ((b"scale(", b"/"), b"backward", (*SCALER_SIGNS, b"autocast", b"apex"))
    fixable = Applicability.UNSAFE
    reason = "The number holds the loss scale (65536 at the start), which changes while training goes on."

    def __init__(self) -> None:
        self.first: dict[cst.CSTNode, cst.CSTNode] = {}
        self.divided: dict[cst.CSTNode, dict[cst.CSTNode, DividedLossRead]] = {}

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
        if self.first.setdefault(event.scaled, event.node) is not event.node:
            return
        if event.how == "returned":
            yield self.report(
                event,
                "the scaled loss is returned instead of the loss",
                reason="A caller that logs or averages what it gets has the loss scale in its numbers.",
                advice="Leave the loss as it is and write scaler.scale(loss).backward().",
                at=event.scaled,
                notes=[*notes, (event.node, "and is what callers get")],
                severity=Severity.INFO,
            )
            return
        notes.append((event.node, f"and {READS[event.how]} here"))
        yield self.report(
            event,
            f"the scaled loss is {READS[event.how]} instead of the loss",
            advice="Leave the loss as it is and write scaler.scale(loss).backward().",
            notes=notes,
        )

    def on_divided_loss_read(self, event: DividedLossRead) -> Iterator[Report]:
        reads = self.divided.setdefault(event.division, {})
        reads[event.node] = min(reads.get(event.node, event), event, key=lambda read: len(read.guesses))
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for division, reads in self.divided.items():
            first, *others = sorted(reads.values(), key=lambda read: read.how != "averaged")
            yield self.report(
                first,
                f"a loss divided by the number of micro-batches is {READS[first.how]} as if it were the loss",
                reason="The number is too small by the number of micro-batches, and changes when only that is changed.",
                advice="Read the loss before it is divided, or multiply what is read by the number of micro-batches.",
                notes=[
                    (division, "the loss is divided for backward"),
                    (first.node, "and read here"),
                    *((other.node, f"and {READS[other.how]} here") for other in others),
                ],
                besides=others,
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if isinstance(event, DividedLossRead):
            reads = self.divided[event.division].values()
            edits = tuple(edit for read in reads if (edit := multiplied_back(read, rewrite)) is not None)
            return Fix("Multiply the loss back", edits, Applicability.UNSAFE) if edits else None
        return scaled_for_backward(event, rewrite) if isinstance(event, ScaledLossRead) else None
