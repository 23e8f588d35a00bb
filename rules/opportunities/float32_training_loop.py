"""AMP901."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.codemods import Wish, as_fix
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ApiUse, AutocastCreated, Backward, Event, OptimizerStep, ScalerCreated, ScriptEnd

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_OWN_PRECISION = ("torch.distributed.fsdp", "torch.distributed._composable")
"""What brings mixed precision of its own."""


class Float32TrainingLoop(Rule):
    """A model is trained in float32, without mixed precision.

    ## Why is this bad?
    It is not, it is an opportunity: matrix products and convolutions run several times faster in half precision on GPUs
    with tensor cores, and activations take half the memory. Autocast runs in half what tolerates it, and a gradient
    scaler keeps small gradients from becoming 0. The rule is off by default and speaks once for a file.

    ## Example
    ```python
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    with torch.autocast(device_type="cuda", dtype=torch.float16):
        loss = loss_fn(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    Unsafe: results change with the precision. It is what `amplint convert --to amp --write` does, and there is none
    where that refuses the file; the command tells why. Where `--select` names nothing but opportunities, they are
    repaired without `--unsafe-fixes`.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP901"
    name = "float32-training-loop"
    severity = Severity.INFO
    default = False
    screen = (b"torch", b".backward(", b".step(")
    fixable = Applicability.UNSAFE
    reason = "Mixed precision is faster and takes less memory on GPUs with tensor cores."

    def __init__(self) -> None:
        self.losses: list[Backward] = []
        self.mixed = self.steps = False

    def on_backward(self, event: Backward) -> Iterator[Report]:
        self.losses.append(event)
        self.mixed |= event.scaler is not None or bool(event.regions)
        yield from ()

    def on_optimizer_step(self, event: OptimizerStep) -> Iterator[Report]:
        self.steps |= not event.closure
        yield from ()

    def on_autocast_created(self, event: AutocastCreated) -> Iterator[Report]:
        self.mixed = True
        yield from ()

    def on_api_use(self, event: ApiUse) -> Iterator[Report]:
        self.mixed |= event.name.startswith(_OWN_PRECISION)
        yield from ()

    def on_scaler_created(self, event: ScalerCreated) -> Iterator[Report]:
        self.mixed = True
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        if self.losses and self.steps and not (self.mixed or event.may_scale or event.index.lowered):
            yield self.report(
                self.losses[0],
                "this training loop runs in float32",
                advice="Let `amplint convert --to amp` put it into mixed precision.",
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        source = rewrite.source
        return as_fix("Train in mixed precision", source.text, Wish(to="amp"), source.path)
