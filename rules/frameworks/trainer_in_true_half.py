"""AMP742."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import AllHalf


class TrainerInTrueHalf(Rule):
    """Lightning's Trainer trains with `precision="16-true"`: float16 weights, and no loss scale.

    ## Why is this bad?
    `"16-true"` converts the whole module, its gradients and the state of its optimizer to float16, and scales nothing:
    gradients below 6e-8 are 0, the `eps` of Adam is 0, and updates below 1/2048 of a weight are lost. Training stalls
    or ends in NaN, without an error. `"16-mixed"` keeps float32 weights and scales the loss; `"bf16-true"` has the
    range of float32, and loses small updates, too.

    ## Example
    ```python
    trainer = L.Trainer(precision="16-true")
    trainer.fit(module, loader)
    ```

    ## Use instead
    ```python
    trainer = L.Trainer(precision="16-mixed")  # or "bf16-mixed"
    trainer.fit(module, loader)
    ```
    Nothing is reported of `validate`, `test` and `predict`, and where a strategy is given that has its own precision.

    ## References
    - <https://lightning.ai/docs/pytorch/stable/common/precision_intermediate.html>
    - <https://github.com/Lightning-AI/pytorch-lightning/issues/19973>
    """

    code = "AMP742"
    name = "trainer-in-true-half"
    severity = Severity.WARNING
    screen = (b"lightning", b"16-true", b".fit(")
    reason = "Small gradients and updates are 0 in float16, and nothing scales the loss."

    def on_all_half(self, event: AllHalf) -> Iterator[Report]:
        if event.dtype == "float16":
            yield self.report(
                event,
                "the Trainer trains float16 weights, and scales no loss",
                advice='Ask for "16-mixed", or for "bf16-mixed", which needs no scale.',
                notes=[(event.made, "the precision is asked for here")],
            )
