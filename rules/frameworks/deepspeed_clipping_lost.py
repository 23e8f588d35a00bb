"""AMP724."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ClippingLost


class DeepspeedClippingLost(Rule):
    """Gradients are to be clipped, and the DeepSpeed configuration asks for no clipping.

    ## Why is this bad?
    With DeepSpeed, Hugging Face's Trainer clips nothing itself: the engine clips to the `gradient_clipping` of its
    configuration, and where that is missing, nothing is clipped, whatever `max_grad_norm` says. No message tells.

    The same goes for PyTorch's `clip_grad_norm_` and `clip_grad_value_` of the engine's parameters: from stage 2 of
    ZeRO on, the backward pass moves gradients into the optimizer's buffers.

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
    Nothing is reported of the default of `max_grad_norm`, 1.0, which is lost as well.

    ## References
    - <https://huggingface.co/docs/transformers/deepspeed>
    - <https://github.com/axolotl-ai-cloud/axolotl/issues/1381>
    """

    code = "AMP724"
    name = "deepspeed-clipping-lost"
    severity = Severity.WARNING
    screen = (b"deepspeed", (b"max_grad_norm", b"clip_grad_"), (b"TrainingArguments", b"Config(", b"initialize("))
    reason = "The engine clips to gradient_clipping alone, which is not in its configuration."

    def on_clipping_lost(self, event: ClippingLost) -> Iterator[Report]:
        value = "1.0" if event.called else '"auto"'
        yield self.report(
            event,
            f"{event.argument} has no effect: the DeepSpeed configuration has no gradient_clipping",
            advice=f'Add "gradient_clipping": {value} to it.',
            notes=[(event.written, "the configuration")],
        )
