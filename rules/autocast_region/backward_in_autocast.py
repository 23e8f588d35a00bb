"""AMP101."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from amplint.edits.casting import may_be_cast
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Backward, DelegatedBackward, Event, ManagedBackward
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class BackwardInAutocast(Rule):
    """`backward()` runs while autocast is on.

    ## Why is this bad?
    Autocast belongs around the forward pass and the loss. The backward pass takes each operation's dtype from the
    forward pass; under autocast it is cast once more. Layers that were kept in float32 on purpose, before the region or
    in a disabled one, then get their gradients from half-precision products that overflow or lose digits.

    ## Example
    ```python
    with torch.autocast("cuda"):
        loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda"):
        loss = criterion(model(inputs), targets)
    scaler.scale(loss).backward()
    ```

    ## Fix safety
    The region ends before `backward()`. What follows leaves the region too, except statements that may run tensor
    operations: these stay in a second region under the same header. There is no fix when `backward()` is nested in
    another block of the region, stands in a function that is called there, or has a forward pass in an argument.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP101"
    name = "backward-in-autocast"
    severity = Severity.WARNING
    claims = (Claim(Sign.REGION_ON, ops=("backward",)),)
    screen = (b"autocast", b"backward")
    fixable = Applicability.SAFE
    reason = "Backward operations take their dtypes from the forward pass; autocast casts them to half once more."

    def on_managed_backward(self, event: ManagedBackward) -> Iterator[Report]:
        yield from self._reported(event)

    def on_backward(self, event: Backward) -> Iterator[Report]:
        yield from self._reported(event) if not (event.of_leaf or event.of_zero) else ()

    def _reported(self, event: Backward | ManagedBackward) -> Iterator[Report]:
        if event.region_with is not None:
            yield self.report(
                event,
                "backward() runs while autocast is on",
                advice="End the autocast region once the loss is computed.",
                notes=[(event.region_with, "autocast is on from here")],
                premises=event.unseen_of_region,
            )

    def on_delegated_backward(self, event: DelegatedBackward) -> Iterator[Report]:
        if event.region_with is not None:
            yield self.report(
                event,
                "autocast is on where a loss is passed to code that runs its backward pass",
                advice="End the autocast region once the loss is computed.",
                notes=[(event.region_with, "autocast is on from here")],
                severity=Severity.INFO,
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        region = event.region_with
        if not isinstance(region, cst.With):
            return None
        call = event.node
        if isinstance(call, cst.Call) and any(may_be_cast(event, argument) for argument in call.args):
            return None  # a forward pass in an argument would leave the region
        edit = rewrite.end_region(region, event.statement, partial(may_be_cast, event))
        if edit is None and not any(may_be_cast(event, statement) for statement in rewrite.body_of(region)):
            edit = rewrite.drop_region(region)
        known = Applicability.UNSAFE if isinstance(event, DelegatedBackward) else Applicability.SAFE
        return Fix("End the autocast region before backward()", (edit,), known) if edit else None
