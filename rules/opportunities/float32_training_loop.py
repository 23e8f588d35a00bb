"""AMP901."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods import Wish
from amplint.rule import Report
from amplint.semantics.events import ApiUse, AutocastCreated, Backward, OptimizerStep, ScalerCreated, ScriptEnd

from .whole_file import Opportunity

_OWN_PRECISION = ("torch.distributed.fsdp", "torch.distributed._composable")
"""Modules with mixed precision of their own."""


class Float32TrainingLoop(Opportunity):
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
    Unsafe: results change with the precision. It is what `amplint convert --to amp --write` does. Where that
    refuses the file nothing is reported; the command tells why. Where `--select` names nothing but opportunities, they
    are repaired without `--unsafe-fixes`.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP901"
    name = "float32-training-loop"
    screen = (b"torch", b".backward(", b".step(")
    wishes = (Wish(to="amp", device="auto"), Wish(to="amp"))
    title = "Train in mixed precision"
    reason = "Mixed precision is faster and takes less memory on GPUs with tensor cores."

    def __init__(self) -> None:
        super().__init__()
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
