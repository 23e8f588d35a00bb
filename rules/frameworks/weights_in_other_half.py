"""AMP745."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import load_in_float32
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, HalvesMixed

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_LOST = {
    "float16": "Gradients are bfloat16 like their parameters, and the scaler cannot unscale them on CUDA.",
    "bfloat16": "Gradients are float16 like their parameters, and no scale keeps them from vanishing.",
}
_OTHER = {"float16": "bfloat16", "bfloat16": "float16"}


class WeightsInOtherHalf(Rule):
    """Mixed precision in one half dtype is asked for around weights that are in the other one.

    ## Why is this bad?
    Weights in float16 under `bf16=True` get float16 gradients, for which nothing scales the loss: those below
    0.00000003 are 0, and the weights themselves lose small updates. Each cast to bfloat16 then drops three of their
    bits. Weights in bfloat16 under `fp16=True` get bfloat16 gradients, which `GradScaler` cannot unscale on CUDA: it
    raises `NotImplementedError: "_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'`.

    The same is reported for a file in YAML or JSON that holds arguments of Hugging Face's Trainer and, beside them, the
    dtype of the model: `bf16: true` with `torch_dtype: float16` or `bnb_4bit_compute_dtype: float16`. Where it names
    adapters or of quantized weights, what is frozen is only rounded, or computed, in another dtype than was asked for,
    which is an info. So it is for a model that a script loads with
    `BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=...)`: its linear layers cast their input to that
    dtype, and their result back, so that what float16 carries passes through the 8 bits of bfloat16. With
    `load_in_8bit=True` they cast it to float16, whatever is asked for.

    ## Example
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float16)
    trainer = Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=dataset)
    trainer.train()
    ```

    ## Use instead
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    trainer = Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=dataset)
    trainer.train()
    ```

    ## Fix safety
    Unsafe: the weights are kept in float32, which takes twice the memory for them and for the optimizer's state.

    ## References
    - <https://github.com/pytorch/pytorch/issues/127176>
    - <https://huggingface.co/docs/transformers/perf_train_gpu_one#mixed-precision>
    """

    code = "AMP745"
    name = "weights-in-other-half"
    severity = Severity.WARNING
    applies_to_bfloat16 = True
    screen = (
        (b"fp16", b"bf16", b"16-mixed", b"precision"),
        (b"half(", b"float16", b"fp16", b"bf16"),
        (b"accelerate", b"lightning", b"transformers", b"trl"),
        (b".step(", b".train(", b".fit("),
    )
    configs = True
    fixable = Applicability.UNSAFE

    def on_halves_mixed(self, event: HalvesMixed) -> Iterator[Report]:
        other = _OTHER[event.precision]
        reason = _LOST[event.precision]
        weights = "the weights"
        if event.adapted:
            weights = "frozen weights"
            reason = f"What is frozen goes through {other} first, which has other digits and another range."
        yield self.report(
            event,
            f"mixed precision is asked for in {event.precision}, and {weights} in {other}",
            reason=reason,
            advice="Load weights that are trained in float32, and ask for the dtype of mixed precision elsewhere.",
            notes=[(event.cast, f"{other} comes from here")],
            severity=Severity.INFO if event.adapted else None,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, HalvesMixed)
        if event.adapted:
            return None
        return load_in_float32(event.cast, rewrite)
