"""AMP220."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Backward, Event
from amplint.source import syntax as cst
from amplint.torchlib.names import SCALER_PARAMETERS, SUCCESSORS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


FLOAT16 = frozenset({"float16"})


class EnabledFlagsDiffer(Rule):
    """One flag switches float16 autocast, another one the scaler.

    ## Why is this bad?
    With float16 autocast on and the scaler off, small gradients become 0 and overflowing ones are applied. A user who
    sets only one of the two flags gets that without a word.

    ## Example
    ```python
    scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
    with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
        loss = loss_fn(model(inputs), targets)
    scaler.scale(loss).backward()
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
        loss = loss_fn(model(inputs), targets)
    scaler.scale(loss).backward()
    ```

    ## Fix safety
    Unsafe: the scaler is switched by what switches the region, so that runs with only one flag set change.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#typical-mixed-precision-training>
    """

    code = "AMP220"
    name = "enabled-flags-differ"
    severity = Severity.WARNING
    screen = (b"autocast", b"GradScaler", b"scale(")
    fixable = Applicability.UNSAFE
    reason = "Where float16 is on and the scaler is off, small gradients become 0."

    def on_backward(self, event: Backward) -> Iterator[Report]:
        created = event.scaler.created if event.scaler is not None else None
        for region in event.regions if created is not None else ():
            if region.context.dtypes == FLOAT16 and region.scaler_on is None and region.alike:
                yield self.report(
                    event,
                    "the scaler and float16 autocast are switched by different flags",
                    advice="Switch both by the same flag.",
                    at=created,
                    notes=[(region.context.node, "this region can be on while the scaler is off")],
                )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, Backward)
        assert event.scaler is not None
        created = event.scaler.created
        region = next(r.context.node for r in event.regions if r.alike and r.scaler_on is None)
        if not isinstance(created, cst.Call) or not isinstance(region, cst.Call):
            return None
        switch = rewrite.find_argument(region, "enabled")
        if switch is None or not rewrite.same_function(created, region):
            return None
        position = SCALER_PARAMETERS.index("enabled") - (event.scaler.cls in SUCCESSORS)
        edit = rewrite.set_argument(created, "enabled", rewrite.text(switch.value), position)
        return Fix("Switch the scaler by the same flag", (edit,), Applicability.UNSAFE) if edit else None
