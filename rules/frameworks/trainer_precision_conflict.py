"""AMP744."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import PrecisionTwice


class TrainerPrecisionConflict(Rule):
    """Training arguments ask for float16 and bfloat16 at once.

    ## Why is this bad?
    `TrainingArguments` of Hugging Face takes one of `fp16` and `bf16`, and raises `ValueError: At most one of fp16 and
    bf16 can be True, but not both`. That holds for the arguments of a script and for a file in YAML or JSON that is
    read into them.

    ## Example
    ```python
    args = TrainingArguments("out", fp16=True, bf16=True)
    ```

    ## Use instead
    ```python
    args = TrainingArguments("out", bf16=True)
    ```

    ## References
    - <https://huggingface.co/docs/transformers/perf_train_gpu_one#mixed-precision>
    - <https://github.com/shibing624/MedicalGPT/issues/451>
    """

    code = "AMP744"
    name = "trainer-precision-conflict"
    severity = Severity.ERROR
    screen = ((b"transformers", b"trl"), b"fp16", b"bf16")
    configs = True
    reason = "TrainingArguments raises ValueError: At most one of fp16 and bf16 can be True, but not both."

    def on_precision_twice(self, event: PrecisionTwice) -> Iterator[Report]:
        yield self.report(
            event,
            "fp16 and bf16 are both asked for",
            advice="Leave one of them out; bf16 needs no scale of losses.",
            notes=[(event.other, "the other one")],
        )
