"""Float8 training by torchao and Transformer Engine: what they convert, where it applies, and for which sizes."""

from __future__ import annotations

from amplint.records import dataclass

CONVERTERS = frozenset(f"torchao.float8.{module}convert_to_float8_training" for module in ("", "float8_linear_utils."))
"""What turns each `torch.nn.Linear` of a model into one that multiplies in float8, unless its `FILTER` refuses it."""
FILTER = ("module_filter_fn", None)
CONFIGS = frozenset(f"torchao.float8.{module}Float8LinearConfig" for module in ("", "config."))
EMULATES = "emulate"
"""The setting of a configuration by which products are only rounded as in float8, so that any size goes."""
MULTIPLE = 16
"""What both sizes of such a layer have to be a multiple of, and the number of rows that it gets, too.

Source: `torch._scaled_mm` of PyTorch 2.1 to 2.13 on CUDA, "Expected trailing dimension of mat1 to be divisible by 16".
"""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that computes in float8 in a region: names and positions of its sizes, and the required multiples."""

    sizes: tuple[tuple[str, int, int], ...]


_ENGINE = "transformer_engine.pytorch."
LAYERS = {
    f"{_ENGINE}{name}": layer
    for name, layer in {
        "Linear": Layer((("in_features", 0, 16), ("out_features", 1, 8))),
        "LayerNormLinear": Layer((("in_features", 0, 16), ("out_features", 1, 8))),
        "LayerNormMLP": Layer((("hidden_size", 0, 16), ("ffn_hidden_size", 1, 16))),
    }.items()
}
"""Source: `assert_dim_for_fp8_exec` in `transformer_engine/pytorch/utils.py`, versions 0.6 to 2.10.

"FP8 execution requires the product of all dimensions except the last to be divisible by 8 and the last dimension to be
divisible by 16": the weight has a row for each output, and the second layer of an MLP gets what the first one gives.
"""
REGIONS = frozenset(
    {
        *(f"{_ENGINE}{module}fp8_autocast" for module in ("", "fp8.", "quantization.")),
        *(f"{_ENGINE}{module}autocast" for module in ("", "quantization.")),
    }
)
"""Contexts in which they do so; `autocast` is the newer name, since 2.8.

Amax histories and scales of delayed scaling are renewed, on all ranks together, where the outermost one ends: the
backward pass belongs outside ("Handling backward pass", user guide, versions 0.3 to 2.10).
"""
PLAIN_CHECKPOINTS = frozenset(f"torch.utils.checkpoint.{name}" for name in ("checkpoint", "checkpoint_sequential"))
"""What runs a segment again without keeping the scales of its first run, which `transformer_engine.pytorch.checkpoint`
does.

The second run then quantizes by other scales, or saves other tensors than the first one, which raises
(<https://github.com/NVIDIA/TransformerEngine/issues/415>).
"""
