"""AMP707."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ScalerBeside
from amplint.torchlib.frameworks import TITLES

LEAVES_SCALE = {"lightning", "deepspeed"}


class ScalerBesideFramework(Rule):
    """A script's own gradient scaler scales a loss, or steps an optimizer, that belongs to a framework.

    ## Why is this bad?
    `Accelerator(mixed_precision="fp16")` and `Fabric(precision="16-mixed")` have a scaler of their own. The step of a
    prepared optimizer goes through it: after `scaler.scale(loss).backward()` it raises (`Attempted step but _scale is
    None`), since that scaler has scaled nothing. A scaled loss in `accelerator.backward` is scaled twice, by 65536
    times 65536. Gradients overflow in float16 and step after step is skipped, until one of the scales has come down
    far enough, and `accelerator.clip_grad_norm_` clips gradients that still carry the other one.

    Where Lightning runs the backward pass, or DeepSpeed's engine, nothing divides the gradients by the scale of a loss
    that `training_step` returns, or that `engine.backward` is passed, whatever the precision: a step is 65536 times too
    long, and clipping shortens every one of them.

    ## Example
    ```python
    accelerator = Accelerator(mixed_precision="fp16")
    model, optimizer = accelerator.prepare(model, optimizer)
    scaler = torch.amp.GradScaler("cuda")
    for inputs, targets in loader:
        scaler.scale(criterion(model(inputs), targets)).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## Use instead
    ```python
    accelerator = Accelerator(mixed_precision="fp16")
    model, optimizer = accelerator.prepare(model, optimizer)
    for inputs, targets in loader:
        accelerator.backward(criterion(model(inputs), targets))
        optimizer.step()
    ```
    Where the script leaves the precision open, this is an info. Nothing is reported of an `Accelerator` or a `Fabric`
    that is asked for float32 or bfloat16, which scale nothing.

    ## References
    - <https://github.com/huggingface/accelerate/issues/357>
    - <https://lightning.ai/docs/pytorch/stable/common/precision_basic.html>
    - <https://deepspeed.readthedocs.io/en/latest/training.html>
    """

    code = "AMP707"
    name = "scaler-beside-framework"
    severity = Severity.ERROR
    screen = (b"GradScaler", (b"ccelerator", b"Fabric", b"training_step", b"deepspeed"))

    def __init__(self) -> None:
        self._reported: set[int] = set()

    def on_scaler_beside(self, event: ScalerBeside) -> Iterator[Report]:
        if event.scaler.symbol in self._reported:
            return
        self._reported.add(event.scaler.symbol)
        title = TITLES[event.framework]
        notes = [(event.scaler.created, "the scaler is made here")] if event.scaler.created is not None else []
        if event.framework in LEAVES_SCALE:
            yield self.report(
                event,
                f"{title} runs backward on a loss that carries a scale, and takes none out",
                reason="Gradients, and the step, are as many times too large as the scale says.",
                advice="Leave the scaler out, and ask the framework for its mixed precision.",
                notes=notes,
            )
            return
        yield self.report(
            event,
            f"{title} scales losses by itself, beside this scaler",
            reason="The step of a prepared optimizer goes through the framework's own scaler.",
            advice="Leave the scaler out: the framework's backward() and the optimizer's step() do its work.",
            notes=notes,
        )
