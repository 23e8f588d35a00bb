"""AMP725."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import EngineBypassed
from amplint.torchlib.changes import PLAIN_BACKWARD

_SINCE = " DeepSpeed does so for backward() as well since 0.18.3, with ZeRO and without a loss scale."


class DeepspeedEngineBypassed(Rule):
    """A plain `loss.backward()`, or a step of the optimizer alone, goes past DeepSpeed's engine, or nothing steps it.

    ## Why is this bad?
    `engine.backward(loss)` divides the loss by `gradient_accumulation_steps`, multiplies it by the loss scale, and
    averages gradients over all processes. `engine.step()` then divides them by the scale. After a plain
    `loss.backward()` it divides what never carried the scale: with `"fp16"`, updates are 65536 times too small, or
    nothing. Without ZeRO, each process trains a model of its own. Since DeepSpeed 0.18.3 `loss.backward()` is as good
    with ZeRO and without a loss scale, and raises `RuntimeError` otherwise.

    `engine.step()` also counts micro-batches: it steps at the end of a window, clips, steps the scheduler and clears
    gradients. Where the script steps the optimizer instead, the engine never comes to the end of a window of several
    micro-batches, and does not hand over their gradients. Where no step follows at all, no weight changes.

    ## Example
    ```python
    config = {"train_batch_size": 8, "fp16": {"enabled": True}}
    engine, optimizer, _, _ = deepspeed.initialize(model=model, config=config)
    loss = engine(inputs)
    loss.backward()
    engine.step()
    ```

    ## Use instead
    ```python
    config = {"train_batch_size": 8, "fp16": {"enabled": True}}
    engine, optimizer, _, _ = deepspeed.initialize(model=model, config=config)
    loss = engine(inputs)
    engine.backward(loss)
    engine.step()
    ```
    Where the configuration or the version of DeepSpeed is not seen, this is an info. Nothing is reported in a file in
    which any backward pass is given a loss.

    ## References
    - <https://deepspeed.readthedocs.io/en/latest/training.html>
    - <https://github.com/deepspeedai/DeepSpeed/issues/329>
    """

    code = "AMP725"
    name = "deepspeed-engine-bypassed"
    severity = Severity.ERROR
    only_numbers = True
    screen = (b"deepspeed", b"initialize", (b".step(", b".backward("))

    def on_engine_bypassed(self, event: EngineBypassed) -> Iterator[Report]:
        newer = event.version is None or event.version.has(PLAIN_BACKWARD) is not False
        notes = [(event.made, "the engine is made here")]
        severity = Severity.INFO if newer and not event.refused else None
        if event.call == "no step":
            yield self.report(
                event,
                "DeepSpeed's engine runs a backward pass, and nothing steps it",
                reason="Only engine.step() updates the weights, and clears the gradients.",
                advice="Call engine.step() after each backward pass.",
                notes=notes,
            )
            return
        if event.call == "step":
            yield self.report(
                event,
                "the optimizer is stepped past DeepSpeed's engine, which adds up micro-batches",
                reason="The engine counts micro-batches in its own step, and never comes to the end of a window.",
                advice="Call engine.step() after each backward pass.",
                severity=severity,
                notes=notes,
            )
            return
        yield self.report(
            event,
            "backward() goes past DeepSpeed's engine, whose step follows",
            reason="The engine divides and scales the loss, and averages gradients, in its own backward pass."
            + (_SINCE if severity is not None else ""),
            advice="Write engine.backward(loss).",
            severity=severity,
            notes=[*notes, (event.step, "this step takes the gradients as the engine's own")],
        )
