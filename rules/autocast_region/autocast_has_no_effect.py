"""AMP106."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import AutocastCreated, AutocastUnused, Event, Forward
from amplint.semantics.values.values import FALSE, Ref
from amplint.source import syntax as cst
from amplint.torchlib.names import AUTOCAST_DEVICES, AUTOCASTS, DTYPES, HALF_DTYPES

WARNS_AND_SWITCHES_OFF = AUTOCAST_DEVICES - {"cuda"}

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class AutocastHasNoEffect(Rule):
    """An autocast region is set up in a way that leaves everything in float32.

    ## Why is this bad?
    `torch.autocast(...)` only builds a context; nothing is cast until a `with` statement or a decorator enters it. The
    class itself, without a call, is no context: `with autocast:` raises `TypeError`. A region for one device type casts
    nothing on another. And except on CUDA, PyTorch switches regions for other dtypes than float16 and bfloat16 off.

    ## Example
    ```python
    torch.autocast("cpu", dtype=torch.bfloat16)
    logits = model(inputs)
    ```

    ## Use instead
    ```python
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inputs)
    ```

    Write `enabled=False` for a region that is meant to be off. float32 on CUDA is left alone: it lifts half weights.

    ## Fix safety
    The missing parentheses are added where the class needs no arguments; the code could only raise without them.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP106"
    name = "autocast-has-no-effect"
    severity = Severity.WARNING
    goes_by = ("arguments",)
    claims = (Claim(Sign.INERT),)
    screen = (b"autocast",)
    fixable = Applicability.SAFE

    def on_autocast_unused(self, event: AutocastUnused) -> Iterator[Report]:
        if event.called:
            yield self.report(
                event,
                "this autocast context is never entered",
                reason="Building a context changes nothing; a `with` statement or a decorator has to enter it.",
                advice="Put the forward pass into a `with` statement with this context.",
                claims=(),
            )
        else:
            reason = "That raises TypeError: only the object that a call builds is a context."
            message, claims = "the autocast class is entered without being called", (Claim(Sign.RAISES),)
            yield self.report(event, message, reason=reason, advice="Call it.", claims=claims)

    def on_autocast_created(self, event: AutocastCreated) -> Iterator[Report]:
        devices = event.context.devices
        argument, value = event.arguments.get("dtype", (None, None))
        dtype = DTYPES.get(value.name) if isinstance(value, Ref) else None
        spelled_out = argument is not None and isinstance(argument.value, cst.Attribute)
        if dtype is None or dtype in HALF_DTYPES or not spelled_out or event.context.enabled == FALSE:
            return
        if devices and devices <= WARNS_AND_SWITCHES_OFF:
            reason = f"PyTorch supports only float16 and bfloat16 here; with {dtype} it warns and casts nothing."
            advice = "Pass torch.bfloat16 or torch.float16, or enabled=False for a region that is meant to be off."
            message = f"autocast to {dtype} is switched off on this device type"
            yield self.report(event, message, reason=reason, advice=advice)

    def on_forward(self, event: Forward) -> Iterator[Report]:
        region, place = event.region, event.place
        if region is not None and region.devices and place is not None and place not in region.devices:
            message = f"this region is for {'/'.join(sorted(region.devices))}, but the model runs on {place}"
            notes, reason = [(event.node, "the model runs here")], "Autocast casts only on its own device type."
            yield self.report(event, message, reason=reason, advice=f'Pass "{place}".', at=region.node, notes=notes)

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, AutocastUnused) or event.called or AUTOCASTS.get(event.api) is None:
            return None
        return Fix("Call autocast", (rewrite.replace(event.node, f"{rewrite.text(event.node)}()"),))
