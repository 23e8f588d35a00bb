"""AMP706."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import load_in_float32
from amplint.findings import Applicability, Fix, Severity
from amplint.regex import regex
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, HalfManaged
from amplint.torchlib.frameworks import CONFIGURED_BY_LAUNCHERS, TITLES

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_BY_LAUNCH = ", unless a launcher brings DeepSpeed or FSDP, which keep float32 copies"


class TrainerWithHalfModel(Rule):
    """A framework is asked for float16 mixed precision and given a model in float16.

    ## Why is this bad?
    `fp16=True` of Hugging Face's Trainer, `mixed_precision="fp16"` of Accelerate and `precision="16-mixed"` of
    Lightning mean autocast and a gradient scaler around float32 parameters. The gradients of a model that was loaded in
    float16 or converted to it are float16 too, and the scaler refuses them with `ValueError: Attempting to unscale FP16
    gradients.`

    Adapters do not always help. Since peft 0.12, `get_peft_model` makes those of half weights float32, unless
    `autocast_adapter_dtype=False` is passed, but not the copies of layers that `modules_to_save` names.
    `model.add_adapter()` of transformers and diffusers adds adapters in the dtype of the weights.

    ## Example
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.float16)
    trainer = Trainer(model=model, args=TrainingArguments("out", fp16=True), train_dataset=dataset)
    trainer.train()
    ```

    ## Use instead
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.float32)
    trainer = Trainer(model=model, args=TrainingArguments("out", fp16=True), train_dataset=dataset)
    trainer.train()
    ```
    Nothing is reported where only part of the model may be trained: it is frozen, quantized, or passed to PEFT for
    adapters in float32.

    ## Fix safety
    Unsafe: the model is kept in float32, which takes twice the memory for its parameters.

    ## References
    - <https://huggingface.co/docs/transformers/perf_train_gpu_one#mixed-precision>
    - <https://lightning.ai/docs/pytorch/stable/common/precision_basic.html>
    """

    code = "AMP706"
    name = "trainer-with-half-model"
    severity = Severity.ERROR
    screen = (
        regex(
            rb"\bfp16(?: ?= ?(?!False|None)|[\"']\]? ?[:=] ?True)|mixed_precision|16-mixed|precision ?= ?[\"']?16"
            rb"|ArgumentParser|TrlParser|def compute_loss|Trainer\):"
        ),
        (b"half(", b"float16"),
        (b"accelerate", b"lightning", b"transformers", b"trl"),
        (b".step(", b".train(", b".fit(", b"def compute_loss", b"super().__init__("),
    )
    fixable = Applicability.UNSAFE
    reason = "Gradients are float16 like their parameters, and the scaler raises: Attempting to unscale FP16 gradients."

    def on_half_managed(self, event: HalfManaged) -> Iterator[Report]:
        if event.manager.precision != "float16":
            return
        launched = event.manager.kind in CONFIGURED_BY_LAUNCHERS
        yield self.report(
            event,
            f"{TITLES[event.manager.kind]} scales the gradients of a float16 model" + (_BY_LAUNCH if launched else ""),
            advice="Keep the parameters in float32; mixed precision casts them to float16 where that is safe.",
            notes=[(event.cast, "the parameters become float16 here")],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, HalfManaged)
        return load_in_float32(event.cast, rewrite)
