"""Changes of libraries' precision by version, on which findings depend."""

from __future__ import annotations

from amplint.torchlib.versions import Change

SETTINGS_CHECKED = Change(
    "deepspeed",
    (0, 17, 1),
    now='Settings that the block `"bf16"` does not have raise `ValidationError`.',
    before="They had no effect.",
    source="`runtime/precision_config.py`, versions 0.16 to 0.19.6",
)
OUTER_REGION_REFUSED = Change(
    "deepspeed",
    (0, 17, 2),
    now='There is a block `"torch_autocast"`; without it, a region around the engine raises `AssertionError`.',
    before="The engine ran in the region.",
    source="<https://github.com/deepspeedai/DeepSpeed/pull/6993>",
)
OUTER_REGION_OFF = Change(
    "deepspeed",
    (0, 17, 6),
    now='Without the block `"torch_autocast"` the engine switches a region around it off, and warns.',
    before="It raised `AssertionError`.",
    source="<https://github.com/deepspeedai/DeepSpeed/pull/7543>",
)
PLAIN_BACKWARD = Change(
    "deepspeed",
    (0, 18, 3),
    now="With ZeRO and without a loss scale, `loss.backward()` does what `engine.backward(loss)` does; elsewhere it "
    "raises `RuntimeError`.",
    before="It divided no loss, scaled none, and averaged no gradients without ZeRO.",
    source="<https://github.com/deepspeedai/DeepSpeed/pull/7665>",
)
LOADED_AS_SAVED = Change(
    "transformers",
    (5, 0),
    now="`from_pretrained` without a dtype loads weights in the dtype in which they were saved.",
    before="It loaded float32.",
    source="<https://github.com/huggingface/transformers/pull/42805>",
)
MADE_AS_CONFIGURED = Change(
    "transformers",
    (4, 49),
    now="`from_config` makes weights in the dtype of the configuration.",
    before="It made float32, unless given a dtype itself.",
    source="`PreTrainedModel._from_config` in `modeling_utils.py`, versions 4.41 to 4.57",
)
CHANGES = (
    *(SETTINGS_CHECKED, OUTER_REGION_REFUSED, OUTER_REGION_OFF, PLAIN_BACKWARD),
    *(LOADED_AS_SAVED, MADE_AS_CONFIGURED),
)
CHANGING = tuple(sorted({change.package for change in CHANGES}))
"""Libraries other than PyTorch whose version findings depend on."""
