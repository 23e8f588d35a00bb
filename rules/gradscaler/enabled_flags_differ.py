"""AMP220."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Backward, Event, GradState, OptimizerStep, ScalerCreated, ScriptEnd
from amplint.semantics.events.protocol import FLOAT16
from amplint.source import syntax as cst
from amplint.torchlib.names import SCALER_PARAMETERS, SUCCESSORS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class EnabledFlagsDiffer(Rule):
    """One flag switches float16 autocast, another one the scaler.

    ## Why is this bad?
    With float16 autocast on and the scaler off, small gradients become 0 and overflowing ones are applied. A user who
    sets only one of the two flags gets that without a word, and so does one who does not ask for the scaler where the
    region is always on.

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
    screen = (b"autocast", b"scale(")
    fixable = Applicability.UNSAFE
    reason = "Where float16 is on and the scaler is off, small gradients become 0."

    def __init__(self) -> None:
        self.scaled: dict[cst.CSTNode, cst.CSTNode] = {}
        """The regions of losses that are scaled, each with the backward pass."""
        self.plain: dict[cst.CSTNode, cst.CSTNode] = {}
        """The backward passes on losses without a scale, each with a region that is always on."""
        self.steps: dict[cst.CSTNode, OptimizerStep] = {}
        self.only_float16 = False
        """Whether a scaler is made only where the dtype is float16, which a path without it may not know any more."""

    def on_scaler_created(self, event: ScalerCreated) -> Iterator[Report]:
        self.only_float16 |= event.only_float16
        yield from ()

    def on_backward(self, event: Backward) -> Iterator[Report]:
        for region in event.regions:
            if event.scaler is not None:
                self.scaled.setdefault(region.context.node, event.node)
            elif region.context.dtypes == FLOAT16 and region.alike and not region.distant:
                self.plain.setdefault(event.node, region.context.node)
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

    def on_optimizer_step(self, event: OptimizerStep) -> Iterator[Report]:
        gradients = event.gradients
        if gradients.state is GradState.RAW and gradients.consumed is None and gradients.backward in self.plain:
            self.steps.setdefault(gradients.backward, event)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for backward, step in self.steps.items() if not self.only_float16 else ():
            region = self.plain[backward]
            if region in self.scaled:
                yield self.report(
                    step,
                    "float16 autocast is on whether or not the loss is scaled",
                    advice="Enable the region by what decides about the scaler.",
                    at=region,
                    notes=[
                        (self.scaled[region], "scales the loss on one path"),
                        (backward, "does not scale it on the other one"),
                        (step.node, "the optimizer takes what is left"),
                    ],
                )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, Backward) or event.scaler is None:
            return None
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
