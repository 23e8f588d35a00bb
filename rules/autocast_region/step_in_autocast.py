"""AMP102."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from amplint.edits.casting import is_last, may_be_cast
from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, OptimizerStep, OutdatedForward, ScalerStep, ScriptEnd
from amplint.semantics.values.values import Optimizer
from amplint.source import syntax as cst
from amplint.torchlib.optimizers import ELEMENTWISE, OF_PRODUCTS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_STALE = (
    "The region goes on with the half copies it has made of the weights: a forward pass in it still runs on old ones."
)
_LAST = "Nothing runs on the old half copies of the weights behind it."
_PRODUCTS = "Matrix products of an optimizer, as in Muon, Shampoo or Adafactor, are cast to half there."


class StepInAutocast(Rule):
    """An optimizer or scaler step runs while autocast is on.

    ## Why is this bad?
    A region keeps the half copies it has made of the weights until its outermost `with` ends: a forward pass of that
    model after the step, in the same region, still runs on the old weights. And matrix products of the optimizer, as in
    Adafactor, Shampoo or Muon, are cast to half, where they overflow or vanish; SGD, Adam and AdamW have none. If no
    forward pass of a model that ran before the step follows it, and the optimizer is not known to compute products,
    nothing comes of it: that is reported only where the rule is selected by its code. Where it is not seen that the
    optimizer has the weights of the model that runs again, or that these are float32, the finding is an info. No copies
    are kept of half, frozen or sharded weights, in inference mode, and with `cache_enabled=False`.

    ## Example
    ```python
    with torch.autocast("cuda"):
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    ```

    ## Use instead
    ```python
    for inputs, targets in loader:
        with torch.autocast("cuda"):
            loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Fix safety
    The region ends before the step. What follows leaves the region too, except statements that may run tensor
    operations: these stay in a second region under the same header. There is no fix when the step is nested in another
    block of the region or stands in a function that is called there.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP102"
    name = "step-in-autocast"
    severity = Severity.WARNING
    claims = (Claim(Sign.REGION_ON, ops=("step",)),)
    screen = (b"autocast", b"step")
    fixable = Applicability.SAFE

    def __init__(self) -> None:
        self._steps: dict[tuple[cst.CSTNode, cst.CSTNode], ScalerStep | OptimizerStep] = {}
        self._outdated: dict[cst.CSTNode, tuple[Premise, ...]] = {}

    def on_outdated_forward(self, event: OutdatedForward) -> Iterator[Report]:
        self._outdated[event.step] = min(self._outdated.get(event.step, event.premises), event.premises, key=len)
        yield from ()

    def on_scaler_step(self, event: ScalerStep) -> Iterator[Report]:
        yield from self._keep(event)

    def on_optimizer_step(self, event: OptimizerStep) -> Iterator[Report]:
        yield from self._keep(event)

    def _keep(self, event: ScalerStep | OptimizerStep) -> Iterator[Report]:
        if event.region_with is not None:
            self._steps.setdefault((event.node, event.region_with), event)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for (_, region), step in self._steps.items():
            yield self._step(step, region)

    def _step(self, event: ScalerStep | OptimizerStep, region: cst.CSTNode) -> Report:
        outdated, products = self._outdated.get(event.node), _has_products(event.optimizer)
        ends = outdated is None and is_last(event, region)
        unseen = list(event.unseen_of_region)
        if outdated is not None:
            unseen += outdated
        elif not products:
            elementwise = _is_elementwise(event.optimizer)
            unseen.append(
                Premise.FORWARD_FOLLOWS if not ends else Premise.FORWARD_ADDED if elementwise else Premise.PRODUCTS
            )
        reason = _PRODUCTS if products and outdated is None else _LAST if ends else _STALE
        return self.report(
            event,
            "the optimizer steps while autocast is on",
            reason=reason,
            advice="End the autocast region once the loss is computed; begin a new one for the next forward pass.",
            notes=[(region, "autocast is on from here")],
            premises=unseen,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event.region_with, cst.With):
            return None
        edit = rewrite.end_region(event.region_with, event.statement, partial(may_be_cast, event))
        return Fix("End the autocast region before the step", (edit,)) if edit else None


def _is_elementwise(optimizer: Optimizer) -> bool:
    return optimizer.cls.startswith("torch.optim.") and optimizer.cls.rpartition(".")[2] in ELEMENTWISE


def _has_products(optimizer: Optimizer) -> bool:
    return optimizer.cls.rpartition(".")[2] in OF_PRODUCTS
