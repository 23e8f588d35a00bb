"""AMP732."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import DividedTwice, Event
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class LossDividedTwice(Rule):
    """A loss is divided by the number of micro-batches before a framework divides it by the same number.

    ## Why is this bad?
    `accelerator.backward(loss)` divides the loss by the `gradient_accumulation_steps` that the `Accelerator` was made
    with, and so does `engine.backward(loss)` of DeepSpeed by that of its configuration. A loss that was divided before
    gives gradients that are too small by that number: with SGD the learning rate is a fraction of what is written, with
    any optimizer clipping sets in later and weight decay weighs more. Nothing raises.

    ## Example
    ```python
    accelerator = Accelerator(gradient_accumulation_steps=4)
    ...
    loss = criterion(model(inputs), targets) / 4
    accelerator.backward(loss)
    ```

    ## Use instead
    ```python
    loss = criterion(model(inputs), targets)
    accelerator.backward(loss)
    ```
    Nothing is reported where the `Accelerator` gets no number, where `engine.backward` is told
    `scale_wrt_gas=False`, or where what is divided is a sum of losses.

    ## Fix safety
    Unsafe: gradients grow by the number of micro-batches, for which the learning rate may have been chosen.

    ## References
    - <https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation>
    - <https://github.com/huggingface/accelerate/issues/3533>
    - <https://github.com/deepspeedai/DeepSpeed/issues/7439>
    """

    code = "AMP732"
    name = "loss-divided-twice"
    severity = Severity.WARNING
    screen = ((b"ccelerator", b"deepspeed"), b"gradient_accumulation_steps", b".backward(", b"/")
    fixable = Applicability.UNSAFE
    reason = "backward() of the framework divides by gradient_accumulation_steps itself."

    def on_divided_twice(self, event: DividedTwice) -> Iterator[Report]:
        deepspeed = event.manager is None
        call, title = ("engine", "DeepSpeed") if deepspeed else ("accelerator", "the Accelerator")
        yield self.report(
            event,
            f"the loss is divided by the number of micro-batches, and again by {call}.backward()",
            advice="Hand over the loss as it is.",
            at=event.division,
            notes=[(event.node, f"{title} divides it here")],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, DividedTwice)
        division = event.division
        if isinstance(division, cst.BinaryOperation):
            edit = rewrite.replace(division, rewrite.text(division.left))
        else:
            removed = rewrite.remove_statement(division)
            if removed is None:
                return None
            edit = removed
        title = "DeepSpeed" if event.manager is None else "the Accelerator"
        return Fix(f"Leave the division to {title}", (edit,), Applicability.UNSAFE)
