"""AMP208."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits import protocol
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Backward, Event, GradState, OptimizerStep, ScalerCreated, ScriptEnd, ShardedStep
from amplint.semantics.values.values import FALSE, TRUE, Autocast
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_CHOSEN = ", where that dtype is chosen"


class Float16WithoutScaler(Rule):
    """A model is trained under float16 autocast, and nothing scales the loss.

    ## Why is this bad?
    The gradients of what autocast ran in float16 are float16 too, and become 0 below 0.00000003. Layers behind such
    small ones learn slowly or not at all, and nothing raises. A `GradScaler` multiplies the loss by a factor that keeps
    them, divides it out before the step, and skips steps that overflowed. bfloat16 has float32's range and needs none.
    Where float16 is one of several dtypes to choose from, this is an info. A scaler does not help whose `enabled` is a
    comparison that is never true, such as that of a `torch.dtype` with a string.

    The same holds for a model that FSDP shards with a policy of `param_dtype=torch.float16`, which scales nothing
    either. There `fully_shard` takes a plain `GradScaler`, `FullyShardedDataParallel` a `ShardedGradScaler`.

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
    Unsafe: results change with the gradients that are no longer lost. The scaler is made beside the optimizer, and
    gradients are unscaled before they are clipped. There is none where float16 is one of several dtypes, and where
    gradients are read otherwise.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP208"
    name = "float16-without-scaler"
    severity = Severity.WARNING
    screen = ((b"autocast", b"MixedPrecision"), b"backward", b".step(")
    fixable = Applicability.UNSAFE
    fix_fits_one_dtype = True
    reason = "Small gradients become 0 in float16; a scaler keeps them in its range."

    def __init__(self) -> None:
        self.plain: dict[cst.CSTNode, Autocast] = {}
        self.steps: dict[cst.CSTNode, OptimizerStep] = {}
        self.sharded: dict[cst.CSTNode, ShardedStep] = {}
        self.backwards: list[Backward] = []
        self.made: dict[cst.CSTNode, cst.BaseExpression | None] = {}
        """The constructions of scalers, each with the comparison or the literal that disables it."""

    def on_scaler_created(self, event: ScalerCreated) -> Iterator[Report]:
        switch = next((one.value for one in event.call.args if one.keyword and one.keyword.value == "enabled"), None)
        written = isinstance(switch, cst.Comparison) or (isinstance(switch, cst.Name) and switch.value == "False")
        disables = switch if event.scaler.enabled == FALSE and written else None
        self.made[event.call] = disables if self.made.get(event.call, disables) is disables else None
        yield from ()

    def on_backward(self, event: Backward) -> Iterator[Report]:
        for region in (ran.context for ran in event.regions if event.scaler is None and not ran.distant):
            if region.is_float16_on_cuda or _may_be_float16(region):
                self.plain.setdefault(event.node, region)
                self.backwards.append(event)
        yield from ()

    def on_optimizer_step(self, event: OptimizerStep) -> Iterator[Report]:
        gradients = event.gradients
        if gradients.state is GradState.RAW and gradients.consumed is None and gradients.backward in self.plain:
            self.steps.setdefault(gradients.backward, event)
        yield from ()

    def on_sharded_step(self, event: ShardedStep) -> Iterator[Report]:
        raw = event.gradients.state is GradState.RAW and event.gradients.consumed is None
        if raw and event.shards.dtype == "float16":
            self.sharded.setdefault(event.shards.node, event)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for met in self.sharded.values() if not event.may_scale else ():
            yield self.report(
                met,
                f"{met.shards.sharder.title} computes in float16, and nothing scales the loss",
                advice="Use a gradient scaler, or bfloat16 where the hardware has it.",
                at=met.shards.node,
                notes=[(met.node, "the optimizer takes what is left")],
            )
        switches = [switch for switch in self.made.values() if switch is not None]
        if self.backwards and switches and len(switches) == len(self.made):
            first = self.backwards[0]
            yield self.report(
                first,
                "a model is trained under float16 autocast with a scaler that is always disabled",
                advice="Enable it where the dtype is float16: dtype == torch.float16.",
                at=switches[0],
                notes=[
                    (self.plain[first.node].node, "this can be float16"),
                    (first.node, "runs on a loss without scale"),
                ],
            )
        for backward, step in self.steps.items() if event.names_cuda and not event.may_scale else ():
            region = self.plain[backward]
            certain = region.is_float16_on_cuda
            yield self.report(
                step,
                f"a model is trained under float16 autocast without a scaler{'' if certain else _CHOSEN}",
                advice="Use a torch.amp.GradScaler, or bfloat16 where the hardware has it.",
                at=backward,
                notes=[
                    (region.node, "float16 from here" if certain else "this can be float16"),
                    (step.node, "the optimizer takes what is left"),
                ],
                severity=None if certain else Severity.INFO,
                besides=[one for one in self.backwards if one.node is backward][:1],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, OptimizerStep):
            return None
        made, call = event.index.made.get(event.optimizer.symbol), event.gradients.backward
        if call is None or not self.plain[call].is_float16_on_cuda:
            return None
        if made is None or not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return None
        loss, near = call.func.value, rewrite.shares_block(made, event.node)
        if not near or not rewrite.same_function(call, event.node) or len(self.steps) > 1 or event.call.args:
            return None
        uses = protocol.gradient_uses(call, event.node, rewrite)
        if not all(isinstance(one, cst.Call) and rewrite.shares_block(event.node, one) for one in uses):
            return None
        optimizer = rewrite.text(event.optimizer_node)
        edits = (
            *(protocol.unscale(one, optimizer, "scaler", rewrite) for one in uses[:1]),
            rewrite.insert_after(made, 'scaler = torch.amp.GradScaler("cuda")'),
            rewrite.replace(loss, protocol.scaled(loss, "scaler", rewrite)),
            protocol.step(event.node, event.optimizer_node, "scaler", rewrite),
            protocol.update(event.node, "scaler", rewrite),
        )
        done = tuple(filter(None, edits)) if rewrite.text(loss) != "torch.autograd" else ()
        return Fix("Scale the loss", done, Applicability.UNSAFE, ("import torch",)) if len(done) == len(edits) else None


def _may_be_float16(region: Autocast) -> bool:
    """Whether float16 is one of the possible dtypes of a region that is on whatever they are, if it runs on CUDA.

    Where a setting switches the region off, it may choose the dtype as well: that is decided once float16 is supposed.
    """
    on_cuda = "cuda" in (region.devices or {"cuda"})
    return region.enabled == TRUE and on_cuda and "float16" in (region.dtypes or ())
