"""AMP208."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Backward, Event, GradState, OptimizerStep, ScriptEnd
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class Float16WithoutScaler(Rule):
    """A model is trained under float16 autocast, and nothing scales the loss.

    ## Why is this bad?
    The gradients of what autocast ran in float16 are float16 too, and become 0 below 0.00000003. Layers behind such
    small ones learn slowly or not at all, and nothing raises. A `GradScaler` multiplies the loss by a factor that keeps
    them, divides it out before the step, and skips steps that overflowed. bfloat16 has float32's range and needs none.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    Unsafe: results change with the gradients that are no longer lost. The scaler is made beside the optimizer.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP208"
    name = "float16-without-scaler"
    severity = Severity.WARNING
    screen = (b"autocast", b"backward", b".step(")
    fixable = Applicability.UNSAFE
    reason = "Small gradients become 0 in float16; a scaler keeps them in its range."

    def __init__(self) -> None:
        self.plain: dict[cst.CSTNode, cst.CSTNode] = {}
        self.steps: dict[cst.CSTNode, OptimizerStep] = {}

    def on_backward(self, event: Backward) -> Iterator[Report]:
        for region in (ran.context for ran in event.regions if event.scaler is None and not ran.distant):
            if region.is_float16_on_cuda:
                self.plain.setdefault(event.node, region.node)
        yield from ()

    def on_optimizer_step(self, event: OptimizerStep) -> Iterator[Report]:
        gradients = event.gradients
        if gradients.state is GradState.RAW and gradients.consumed is None and gradients.backward in self.plain:
            self.steps.setdefault(gradients.backward, event)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for backward, step in self.steps.items() if event.names_cuda and not event.may_scale else ():
            yield self.report(
                step,
                "a model is trained under float16 autocast without a scaler",
                advice="Use a torch.amp.GradScaler, or bfloat16 where the hardware has it.",
                at=backward,
                notes=[(self.plain[backward], "float16 from here"), (step.node, "the optimizer takes what is left")],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, OptimizerStep)
        made, call = event.index.made.get(event.optimizer.symbol), event.gradients.backward
        if made is None or not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return None
        loss, near = rewrite.text(call.func.value), rewrite.shares_block(made, event.node)
        if not near or not rewrite.same_function(call, event.node) or len(self.steps) > 1 or event.call.args:
            return None
        edits = (
            rewrite.insert_after(made, 'scaler = torch.amp.GradScaler("cuda")'),
            rewrite.replace(call.func.value, f"scaler.scale({loss})"),
            rewrite.replace(event.node, f"scaler.step({rewrite.text(event.optimizer_node)})"),
            rewrite.insert_after(event.node, "scaler.update()"),
        )
        done = tuple(filter(None, edits)) if loss != "torch.autograd" else ()
        return Fix("Scale the loss", done, Applicability.UNSAFE, ("import torch",)) if len(done) == len(edits) else None
