"""AMP112."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from amplint.edits.casting import may_be_cast
from amplint.edits.repairs import statement_around
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, LoopInRegion, StaleForward
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class WeightsChangedInAutocast(Rule):
    """Weights are changed between two forward passes of one autocast region: the second one runs on the old weights.

    ## Why is this bad?
    A region keeps the half copies it has made of float32 weights until its outermost `with` ends. `load_state_dict`,
    `copy_` and their kind change the weights, and not the copies: another checkpoint, a reference policy or an average
    gives exactly what the former weights gave. Nothing raises or warns. Steps of optimizers are AMP102's, but for those
    of a framework's whole training loop in a region: `with torch.autocast("cuda"): trainer.train()` computes every loss
    with the weights of the first step.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(inputs)
        model.load_state_dict(reference)
        reference_logits = model(inputs)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(inputs)
    model.load_state_dict(reference)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        reference_logits = model(inputs)
    ```
    Nothing is reported where the region has `cache_enabled=False`, where `torch.clear_autocast_cache()` runs between,
    in inference mode, and for half or frozen weights: no copies are kept of these.

    ## Fix safety
    Unsafe: the region ends before the weights change, and what follows runs in a second one; results change with that.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    - <https://github.com/X-GenGroup/Flow-Factory/pull/186>
    """

    code = "AMP112"
    name = "weights-changed-in-autocast"
    severity = Severity.ERROR
    only_numbers = True
    screen = (b"autocast", (b"load_state_dict(", b"_(", b".data", b"vector_to_parameters", b".train(", b".fit("))
    fixable = Applicability.UNSAFE
    reason = "The region goes on with the half copies it has made of the old weights."

    def on_stale_forward(self, event: StaleForward) -> Iterator[Report]:
        yield self.report(
            event,
            "the weights change here, and the next forward pass of this autocast region still runs on the old ones",
            advice="End the region before, and begin a new one for the next forward pass.",
            notes=[
                *([(event.entered, "autocast is on from here")] if event.entered is not None else []),
                (event.forward, "this forward pass gets the half copies of the old weights"),
            ],
            severity=None if event.certain else Severity.WARNING,
        )

    def on_loop_in_region(self, event: LoopInRegion) -> Iterator[Report]:
        yield self.report(
            event,
            "the whole training loop runs in one autocast region, so that the loss stays that of the first weights",
            advice="Take the region away, and ask the framework for mixed precision: TrainingArguments(bf16=True).",
            notes=[(event.entered, "autocast is on from here")] if event.entered is not None else [],
            claims=(),
            severity=None if event.certain else Severity.WARNING,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        region = event.region_with
        if isinstance(event, LoopInRegion) or not isinstance(region, cst.With):
            return None
        first = statement_around(event.node, region)
        edit = rewrite.end_region(region, first, partial(may_be_cast, event)) if first is not None else None
        return Fix("End the autocast region before", (edit,), Applicability.UNSAFE) if edit is not None else None
