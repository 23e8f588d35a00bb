"""AMP210."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Backward, Event, ScalerMadeAnew, ScalerStep
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class ScalerInLoop(Rule):
    """The scaler is made anew in every round of a loop, or every call of a function, that keeps its optimizer.

    ## Why is this bad?
    A scaler learns: it starts at 65536, halves the scale after every overflow and doubles it after 2000 good steps. One
    that is constructed again for every epoch or batch starts over each time, skips steps again until it has found the
    right scale, and never reaches a larger one. So does one that a function makes for the single step it takes. A
    scaler whose losses are all computed in bfloat16 skips no steps; AMP209 reports it.

    ## Example
    ```python
    for epoch in range(epochs):
        scaler = torch.amp.GradScaler("cuda")
        train_one_epoch(model, optimizer, scaler)
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        train_one_epoch(model, optimizer, scaler)
    ```

    ## Fix safety
    The construction moves above the loop when it stands directly in it and uses nothing that the loop binds.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling>
    """

    code = "AMP210"
    name = "scaler-in-loop"
    severity = Severity.ERROR
    only_numbers = True
    screen = (b"GradScaler",)
    fixable = Applicability.SAFE
    reason = "Its scale and growth counter start from the beginning each time, so overflowing steps are skipped again."

    def __init__(self) -> None:
        self._needed: dict[cst.CSTNode, bool] = {}
        """By the construction of a scaler whether a loss that it scales may be computed in float16."""

    def on_backward(self, event: Backward) -> Iterator[Report]:
        if event.scaler is not None and event.scaler.created is not None:
            created = event.scaler.created
            is_needed = event.may_scale_float16 or not event.scales_bfloat16
            self._needed[created] = is_needed or self._needed.get(created, False)
        yield from ()

    def on_scaler_step(self, event: ScalerStep) -> Iterator[Report]:
        created = event.scaler.created
        if event.inner_loop is not None and created is not None and self._needed.get(created, True):
            yield self.report(
                event,
                "the scaler is constructed again in every round of a loop, its optimizer is not",
                advice="Construct the scaler once, next to the optimizer, and pass it in.",
                at=created,
                notes=[(event.inner_loop, "this loop makes a new scaler each time round"), (event.node, "used here")],
            )

    def on_scaler_made_anew(self, event: ScalerMadeAnew) -> Iterator[Report]:
        used = event.used
        if not isinstance(event.around, cst.FunctionDef):
            yield self.report(
                event,
                "the scaler is constructed again in every round of a loop, its optimizer is not",
                advice="Construct the scaler once, next to the optimizer, and pass it in.",
                notes=[(event.around, "this loop makes a new scaler each time round"), (used, "passed on here")],
                severity=Severity.WARNING if event.guesses else None,
            )
            return
        yield self.report(
            event,
            f"each call of {event.around.name.value}() makes a new scaler for an optimizer that was there before",
            advice="Construct the scaler once, next to the optimizer, and pass it in.",
            notes=[(used, "the only step of its life" if event.once else "steps here, in one epoch")],
            severity=Severity.WARNING if event.once else Severity.INFO,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, (ScalerStep, ScalerMadeAnew))
        created, loop = event.scaler.created, event.inner_loop if isinstance(event, ScalerStep) else event.around
        if (
            not isinstance(created, cst.Call)
            or not isinstance(loop, (cst.For, cst.While))
            or not rewrite.same_function(created, loop)
        ):
            return None
        names = {name for argument in created.args for name in rewrite.names(argument)}
        if names & event.loop_binds or rewrite.branch_towards(loop, created) is not loop:
            return None
        edits = rewrite.hoist_before(created, loop)
        return Fix("Construct the scaler before the loop", tuple(edits)) if edits else None
