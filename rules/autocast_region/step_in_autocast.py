"""AMP102."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from amplint.edits.casting import is_last, may_be_cast
from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import AutocastEntered, Event, Forward, OptimizerStep, ScalerStep, ScriptEnd
from amplint.semantics.values.values import Optimizer
from amplint.source import syntax as cst
from amplint.torchlib.optimizers import ELEMENTWISE

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
    nothing comes of it: that is reported only where the rule is selected by its code.

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
    reason = (
        "The region goes on with half copies of the old weights, and casts the optimizer's matrix products to half."
    )

    def __init__(self) -> None:
        self._steps: dict[tuple[cst.CSTNode, cst.CSTNode], ScalerStep | OptimizerStep] = {}
        self._models: dict[cst.CSTNode, set[Hashable]] = {}
        self._waiting: dict[cst.CSTNode, dict[cst.CSTNode, frozenset[Hashable]]] = {}
        self._outdated: dict[cst.CSTNode, set[str]] = {}

    def on_autocast_entered(self, event: AutocastEntered) -> Iterator[Report]:
        self._waiting.pop(event.context.node, None)
        self._models.pop(event.context.node, None)
        yield from ()

    def on_forward(self, event: Forward) -> Iterator[Report]:
        if event.region is not None:
            waiting = self._waiting.get(event.region.node, {})
            ran = {node for node, _ in event.steps}
            for step in [step for step, copied in waiting.items() if event.model in copied and step in ran]:
                self._outdated.setdefault(step, set()).add(event.name)
            self._models.setdefault(event.region.node, set()).add(event.model)
        yield from ()

    def on_scaler_step(self, event: ScalerStep) -> Iterator[Report]:
        yield from self._keep(event)

    def on_optimizer_step(self, event: OptimizerStep) -> Iterator[Report]:
        yield from self._keep(event)

    def _keep(self, event: ScalerStep | OptimizerStep) -> Iterator[Report]:
        if event.region_with is not None:
            assert event.region is not None
            self._steps.setdefault((event.node, event.region_with), event)
            copied = frozenset(self._models.get(event.region.node, ()))
            self._waiting.setdefault(event.region.node, {})[event.node] = copied
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for (_, region), step in self._steps.items():
            yield self._step(step, region)

    def _step(self, event: ScalerStep | OptimizerStep, region: cst.CSTNode) -> Report:
        elementwise, ends = _is_elementwise(event.optimizer), is_last(event, region)
        unseen = list(event.unseen_of_region)
        if ends and elementwise:
            unseen.append(Premise.FORWARD_ADDED)
        elif ends and not event.optimizer.cls:
            unseen.append(Premise.PRODUCTS)
        elif not ends and not self._runs_again(event) and (elementwise or not event.optimizer.cls):
            unseen.append(Premise.FORWARD_FOLLOWS)
        return self.report(
            event,
            "the optimizer steps while autocast is on",
            reason=(_LAST if ends else _STALE) if elementwise else _PRODUCTS if ends else "",
            advice="End the autocast region once the loss is computed; begin a new one for the next forward pass.",
            notes=[(region, "autocast is on from here")],
            premises=unseen,
        )

    def _runs_again(self, event: ScalerStep | OptimizerStep) -> bool:
        """Whether a model runs before and behind the step in its region, and is not one of another optimizer."""
        trained = {optimizer: _last(names) for optimizer, names in event.index.trained.items()}
        own = trained.get(event.optimizer.symbol)
        others = frozenset[str]().union(*trained.values()) - own if own else frozenset[str]()
        return not _last(self._outdated.get(event.node, ())) <= others

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event.region_with, cst.With):
            return None
        edit = rewrite.end_region(event.region_with, event.statement, partial(may_be_cast, event))
        return Fix("End the autocast region before the step", (edit,)) if edit else None


def _last(names: Iterable[str]) -> frozenset[str]:
    """The last parts of dotted names: a method calls `self.part` what other code calls `whole.part`."""
    return frozenset(name.rpartition(".")[2] for name in names)


def _is_elementwise(optimizer: Optimizer) -> bool:
    return optimizer.cls.startswith("torch.optim.") and optimizer.cls.rpartition(".")[2] in ELEMENTWISE
