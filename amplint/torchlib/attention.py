"""Attention of other libraries: what it asks of the dtypes of its inputs, which autocast does not convert for it."""

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
