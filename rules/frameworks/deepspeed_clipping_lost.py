"""AMP724."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ClippingLost


class DeepspeedClippingLost(Rule):
    """`max_grad_norm` is given, and the DeepSpeed configuration asks for no clipping.

    ## Why is this bad?
    With DeepSpeed, Hugging Face's Trainer clips nothing itself: the engine clips to the `gradient_clipping` of its
    configuration, and where that is missing, nothing is clipped, whatever `max_grad_norm` says. No message tells.

    ## Example
    ```python
    config = {"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}
    args = TrainingArguments("out", bf16=True, max_grad_norm=0.5, deepspeed=config)
    ```

    ## Use instead
    ```python
    config = {"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}, "gradient_clipping": "auto"}
    args = TrainingArguments("out", bf16=True, max_grad_norm=0.5, deepspeed=config)
    ```
    Nothing is reported of the default, 1.0, which is lost as well.

    ## References
    - <https://huggingface.co/docs/transformers/deepspeed>
    - <https://github.com/axolotl-ai-cloud/axolotl/issues/1381>
    """

    code = "AMP724"
    name = "deepspeed-clipping-lost"
    severity = Severity.WARNING
    screen = (b"deepspeed", b"max_grad_norm", (b"TrainingArguments", b"Config("))
    reason = "The engine clips to gradient_clipping alone, which is not in its configuration."

    def on_clipping_lost(self, event: ClippingLost) -> Iterator[Report]:
        yield self.report(
            event,
            f"{event.argument} has no effect: the DeepSpeed configuration has no gradient_clipping",
            advice='Add "gradient_clipping": "auto" to it.',
            notes=[(event.written, "the configuration")],
        )
