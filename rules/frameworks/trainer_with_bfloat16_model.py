"""AMP741."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import load_in_float32
from amplint.findings import Applicability, Fix, Severity
from amplint.regex import regex
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, HalfManaged
from amplint.source import syntax as cst
from amplint.torchlib.changes import LOADED_AS_SAVED
from amplint.torchlib.frameworks import CONFIGURED_BY_LAUNCHERS, TITLES
from amplint.torchlib.versions import assumed

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_BY_LAUNCH = ", unless a launcher brings DeepSpeed or FSDP, which make their own"


class TrainerWithBfloat16Model(Rule):
    """A framework is asked for bfloat16 mixed precision and given a model in bfloat16: no float32 weights are left.

    ## Why is this bad?
    `bf16=True` of Hugging Face's Trainer and `precision="bf16-mixed"` of Lightning mean autocast around float32
    weights. Weights that were loaded in bfloat16 stay in it, and the optimizer updates them directly: what is less than
    1/256 of its weight is lost. With a learning rate of 1e-5, one step of Adam changes every sixth weight of a usual
    layer, and gains of norm layers, near 1, never move. Weight decay is lost for all of them. Nothing raises or warns.

    The same is reported where a subclass of Hugging Face's Trainer converts the model that `compute_loss` or
    `training_step` is passed: `model.to(...)` converts it in place, and the optimizer has its weights already.

    Since transformers 5, `from_pretrained` without a dtype loads weights in the one in which they were saved, bfloat16
    for most language models; before, it was float32. Where nothing tells that the script is for an older version, as
    an argument that version 5 refuses does, or what the project's requirements, lock file or `library-versions` ask
    for, this is an info.

    DeepSpeed keeps float32 copies by itself, and Accelerate makes them where FSDP shards: nothing is reported where the
    script asks for either. A launcher may do so unseen: of all but Lightning's Trainer, which no launcher configures,
    this is an info.

    ## Example
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)
    trainer = Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=dataset)
    trainer.train()
    ```

    ## Use instead
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    trainer = Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=dataset)
    trainer.train()
    ```
    Nothing is reported where only part of the model may be trained: it is frozen, quantized, or passed to PEFT.

    ## Fix safety
    Unsafe: the weights are kept in float32, which takes twice the memory for them and for the optimizer's state.

    ## References
    - <https://huggingface.co/docs/transformers/perf_train_gpu_one#mixed-precision>
    - <https://github.com/huggingface/transformers/pull/42805>
    - <https://github.com/meta-pytorch/torchtune/issues/2254>
    """

    code = "AMP741"
    name = "trainer-with-bfloat16-model"
    severity = Severity.WARNING
    applies_to_bfloat16 = True
    screen = (
        regex(
            rb"\bbf16(?: ?= ?(?!False|None)|[\"']\]? ?[:=] ?True)|mixed_precision|bf16-mixed|precision ?= ?[\"']bf16"
            rb"|HfArgumentParser|TrlParser|def compute_loss|Trainer\):"
        ),
        (b"bfloat16", b"CausalLM.from_pretrained(", b"TextToText.from_pretrained("),
        (b"accelerate", b"lightning", b"transformers", b"trl"),
        (b".step(", b".train(", b".fit(", b"def compute_loss", b"super().__init__("),
    )
    fixable = Applicability.UNSAFE
    reason = "The optimizer updates bfloat16 weights, which lose an update below 1/256 of the weight."

    def on_half_managed(self, event: HalfManaged) -> Iterator[Report]:
        manager = event.manager
        if manager.precision != "bfloat16":
            return
        if event.as_saved:
            yield self.report(
                event,
                "the Trainer trains weights in the dtype they were saved in, mostly bfloat16",
                reason="Since transformers 5.0 from_pretrained loads float32 only if told to; "
                + f"{assumed(LOADED_AS_SAVED, event.version)}.",
                advice="Load them with dtype=torch.float32 (torch_dtype before 4.56).",
                notes=[(event.cast, "the weights are loaded here, without a dtype")],
                severity=Severity.INFO,
            )
            return
        certain = manager.kind not in CONFIGURED_BY_LAUNCHERS
        yield self.report(
            event,
            f"{TITLES[manager.kind]} trains bfloat16 weights, of which there is no float32 copy"
            + ("" if certain else _BY_LAUNCH),
            advice="Keep the parameters in float32; mixed precision casts them to bfloat16 for each pass.",
            notes=[(event.cast, "the parameters become bfloat16 here")],
            severity=None if certain else Severity.INFO,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, HalfManaged)
        if event.as_saved and isinstance(event.cast, cst.Call):
            edit = rewrite.set_argument(event.cast, "dtype", "torch.float32")
            return Fix("Load float32 weights", (edit,), Applicability.UNSAFE, ("import torch",)) if edit else None
        return load_in_float32(event.cast, rewrite)
