"""AMP108."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import (
    AutocastCreated,
    Event,
    Forward,
    ForwardOutside,
    Recipe,
    ScaledWithoutRegion,
    ScriptEnd,
)
from amplint.torchlib.names import SCALER_SIGNS

if TYPE_CHECKING:
    from amplint.source import syntax as cst
    from amplint.source.rewrite import Rewriter


class ForwardOutsideAutocast(Rule):
    """A loss is computed under autocast or scaled, but the model's forward pass does not run under autocast.

    ## Why is this bad?
    Autocast saves time and memory in the matrix products and convolutions of the model. Around nothing but the loss it
    has little to convert, since losses run in float32 anyway: the training runs as slowly as without autocast.

    A gradient scaler keeps small gradients of half precision from vanishing. Where nothing runs in half, a scaled loss
    makes training no faster, and steps are skipped now and then for nothing. An unseen model, or one that is
    sharded, may compute in half by itself: there it is an info.

    ## Example
    ```python
    outputs = model(inputs)
    with torch.autocast("cuda"):
        loss = criterion(outputs, targets)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda"):
        outputs = model(inputs)
        loss = criterion(outputs, targets)
    ```

    ## Fix safety
    The forward pass moves into the region where it is the statement right before; it then runs in half, which changes
    its results.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP108"
    name = "forward-outside-autocast"
    severity = Severity.WARNING
    claims = (Claim(Sign.REGION_OFF),)
    screen = ((b"autocast", *SCALER_SIGNS), b"backward")
    fixable = Applicability.UNSAFE

    def __init__(self) -> None:
        self._outside: list[ForwardOutside] = []
        self._scaled: list[ScaledWithoutRegion] = []
        self._inside: set[cst.CSTNode] = set()
        """The regions in which a model is trained."""
        self._made = False

    def on_autocast_created(self, event: AutocastCreated) -> Iterator[Report]:
        self._made = True
        yield from ()

    def on_forward(self, event: Forward) -> Iterator[Report]:
        ran = event.gradients is not False and event.autocast is not Recipe.OFF
        if ran and not event.is_of_loss and event.region is not None:
            self._inside.add(event.region.node)
        yield from ()

    def on_forward_outside(self, event: ForwardOutside) -> Iterator[Report]:
        self._outside.append(event)
        yield from ()

    def on_scaled_without_region(self, event: ScaledWithoutRegion) -> Iterator[Report]:
        self._scaled.append(event)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for forward in self._outside:
            if forward.inside.node in self._inside:
                continue
            yield self.report(
                forward,
                "the model runs before the autocast region that its loss is computed in",
                reason="The products and convolutions of the model are what autocast speeds up; they run in float32.",
                advice="Begin the region before the forward pass.",
                notes=[(forward.inside.node, "autocast begins here")],
            )

        for first in self._scaled[:1]:
            seen = all(one.seen for one in self._scaled)
            runs = "its forward pass does not run" if self._made else "nothing runs"
            yield self.report(
                first,
                f"the loss is scaled, but {runs} under autocast",
                reason="In float32 nothing is gained from a scaled loss: training is as slow as without the scaler.",
                advice="Run the forward pass and the loss under torch.autocast, or do without the scaler.",
                notes=[(first.backward, "the scaled loss is differentiated here")],
                premises=() if seen else (Premise.NO_REGION_WITHIN,),
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, ForwardOutside):
            return None
        edits = rewrite.into_region(event.node, event.inside.node)
        return Fix("Move the forward pass into the region", tuple(edits), Applicability.UNSAFE) if edits else None
