"""AMP736."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ModelUnprepared


class ModelNotPrepared(Rule):
    """Accelerate prepares the optimizer of a model, and never the model itself.

    ## Why is this bad?
    The mixed precision of an `Accelerator` reaches a model by `accelerator.prepare(model)` alone, which puts autocast
    around its `forward`. A model that was not prepared computes in float32 under `mixed_precision="bf16"`, as slowly
    and in as much memory as without it, while `accelerator.backward` still scales the loss for `"fp16"`. On several
    processes nothing averages its gradients: each trains a model of its own. Nothing raises.

    ## Example
    ```python
    accelerator = Accelerator(mixed_precision="bf16")
    optimizer, loader = accelerator.prepare(optimizer, loader)
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
    ```

    ## Use instead
    ```python
    accelerator = Accelerator(mixed_precision="bf16")
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
    ```
    Nothing is reported where the script asks for float32, where the model runs within another one or is wrapped by
    `DistributedDataParallel`, and where unseen code is passed the Accelerator and the model. In a region of the
    script's own, such as `accelerator.autocast()`, and of half weights, it is an info about the gradients.

    ## References
    - <https://huggingface.co/docs/accelerate/package_reference/accelerator#accelerate.Accelerator.prepare>
    - <https://huggingface.co/docs/accelerate/basic_tutorials/migration>
    """

    code = "AMP736"
    name = "model-not-prepared"
    severity = Severity.WARNING
    screen = (b"ccelerator", b".prepare", b".backward(")
    reason = "prepare() puts autocast around the forward pass of a model, and averages its gradients over processes."

    def on_model_unprepared(self, event: ModelUnprepared) -> Iterator[Report]:
        if event.manager.precision == "float32":
            return
        misses = "no process averages its gradients" if event.in_region else "it runs without mixed precision"
        yield self.report(
            event,
            f"the Accelerator prepares the optimizer of this model, and not the model: {misses}",
            advice="Prepare both in one call: model, optimizer = accelerator.prepare(model, optimizer).",
            severity=Severity.INFO if event.in_region else None,
            notes=[(event.prepared, "the optimizer is prepared here")],
        )
