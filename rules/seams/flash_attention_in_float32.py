"""AMP505."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, FlashInFloat32

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class FlashAttentionInFloat32(Rule):
    """A model of transformers with flash attention runs in float32, outside of any autocast region.

    ## Why is this bad?
    The kernels of flash-attn take float16 and bfloat16 alone. transformers hands them queries in the dtype of the
    region that is on, or else of the weights: float32 weights without a region raise `FlashAttention only support fp16
    and bf16 data type`.

    ## Example
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="flash_attention_2", dtype=torch.float32)
    outputs = model(**batch)
    ```

    ## Use instead
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="flash_attention_2", dtype=torch.float32)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        outputs = model(**batch)
    ```
    Nothing is reported where no dtype is written, or where the model is passed to something else before.

    ## Fix safety
    Unsafe: the model is loaded in bfloat16. To train it, keep float32 weights and make a region instead.

    ## References
    - <https://huggingface.co/docs/transformers/attention_interface>
    - <https://github.com/QwenLM/Qwen3/issues/406>
    """

    code = "AMP505"
    name = "flash-attention-in-float32"
    severity = Severity.ERROR
    screen = (b"flash_attention_", b"from_pretrained", b"float32")
    fixable = Applicability.UNSAFE
    reason = "The kernels raise: FlashAttention only support fp16 and bf16 data type."

    def on_flash_in_float32(self, event: FlashInFloat32) -> Iterator[Report]:
        yield self.report(
            event,
            "flash attention gets float32",
            advice="Run the model in an autocast region, or load it in bfloat16.",
            notes=[(event.made, "the model is loaded in float32 here")],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, FlashInFloat32)
        named = next((name for name in ("dtype", "torch_dtype") if rewrite.find_argument(event.made, name)), None)
        edit = rewrite.set_argument(event.made, named, "torch.bfloat16") if named is not None else None
        return Fix("Load the model in bfloat16", (edit,), Applicability.UNSAFE, ("import torch",)) if edit else None
