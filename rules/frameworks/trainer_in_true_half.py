"""AMP742."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import AllHalf
from amplint.source import syntax as cst


class TrainerInTrueHalf(Rule):
    """Lightning trains with `precision="16-true"` or `"bf16-true"`: half weights, without a float32 copy.

    ## Why is this bad?
    `"16-true"` converts the whole module, its gradients and the state of its optimizer to float16, and scales nothing:
    gradients below 6e-8 are 0, the `eps` of Adam is 0, and updates below 1/2048 of a weight are lost. Training stalls
    or ends in NaN, without an error. `"16-mixed"` keeps float32 weights and scales the loss.

    `"bf16-true"` has the range of float32, and loses updates below 1/256 of a weight: with a learning rate of 1e-5, one
    step of Adam changes every sixth weight of a usual layer, and gains of norm layers, near 1, never move. It is asked
    for to save memory, which it does, so that this is an info.

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
    The same holds of `Fabric`. Nothing is reported of `validate`, `test` and `predict`, and where a strategy is given
    that has its own precision.

    ## References
    - <https://lightning.ai/docs/pytorch/stable/common/precision_intermediate.html>
    - <https://github.com/Lightning-AI/pytorch-lightning/issues/19973>
    - <https://github.com/mittagessen/party/issues/10>
    """

    code = "AMP742"
    name = "trainer-in-true-half"
    severity = Severity.WARNING
    screen = (b"lightning", b"16-true", (b".fit(", b".backward("))
    reason = "Small gradients and updates are 0 in float16, and nothing scales the loss."

    def __init__(self) -> None:
        self._reported: set[cst.CSTNode] = set()

    def on_all_half(self, event: AllHalf) -> Iterator[Report]:
        if event.made in self._reported:
            return
        self._reported.add(event.made)
        if event.dtype == "float16":
            yield self.report(
                event,
                f"{event.runs} trains float16 weights, and scales no loss",
                advice='Ask for "16-mixed", or for "bf16-mixed", which needs no scale.',
                notes=[(event.made, "the precision is asked for here")],
            )
        else:
            yield self.report(
                event,
                f"{event.runs} trains bfloat16 weights, of which there is no float32 copy",
                reason="The optimizer updates bfloat16 weights, which lose an update below 1/256 of the weight.",
                advice='Ask for "bf16-mixed", unless memory forbids it.',
                notes=[(event.made, "the precision is asked for here")],
                severity=Severity.INFO,
            )
