"""Third-party attention kernels: the dtypes required of their inputs, which autocast does not cast."""

from __future__ import annotations

FLASH = ("q", "k", "v")
XFORMERS = ("query", "key", "value")
SAME_DTYPE = {
    **{
        f"flash_attn.{module}{name}": FLASH
        for module in ("", "flash_attn_interface.")
        for name in ("flash_attn_func", "flash_attn_varlen_func")
    },
    "xformers.ops.memory_efficient_attention": XFORMERS,
    "xformers.ops.fmha.memory_efficient_attention": XFORMERS,
}
"""Qualified name -> its inputs, in their order, which have to have one dtype.

Sources: `csrc/flash_attn/flash_api.cpp` of flash-attn 2.0 to 2.8 ("query and key must have the same dtype"), and
`xformers/ops/fmha/common.py` of xformers 0.0.20 to 0.0.33 ("Query/Key/Value should all have the same dtype").
"""
CHOSEN_BY = "attn_implementation"
"""The argument of `from_pretrained` of transformers, since 4.36, that selects an attention library."""
HALF_ALONE = frozenset({"flash_attention_2", "flash_attention_3"})
"""Its values for kernels that accept float16 and bfloat16 alone.

Without a region, transformers passes them float32 if the weights are ("FlashAttention only support fp16 and bf16 data
type"): `get_target_dtype` in `integrations/flash_attention.py`, versions 4.36 to 5.24.
"""
