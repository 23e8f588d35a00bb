"""Float8 training by torchao and Transformer Engine: conversions, regions, and supported sizes."""

from __future__ import annotations

from amplint.records import dataclass

CONVERTERS = frozenset(f"torchao.float8.{module}convert_to_float8_training" for module in ("", "float8_linear_utils."))
"""Functions that replace each `torch.nn.Linear` of a model by one that multiplies in float8, subject to `FILTER`."""
FILTER = ("module_filter_fn", None)
CONFIGS = frozenset(f"torchao.float8.{module}Float8LinearConfig" for module in ("", "config."))
EMULATES = "emulate"
"""The setting of a configuration by which products are only rounded as in float8, with any size."""
MULTIPLE = 16
"""The divisor of both sizes of such a layer, and of the number of rows of its input.

Source: `torch._scaled_mm` of PyTorch 2.1 to 2.13 on CUDA, "Expected trailing dimension of mat1 to be divisible by 16".
"""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that computes in float8 in a region: names and positions of its sizes, and their divisors."""

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
"""Layer -> its sizes.

Source: `assert_dim_for_fp8_exec` in `transformer_engine/pytorch/utils.py`, versions 0.6 to 2.10. "FP8 execution
requires the product of all dimensions except the last to be divisible by 8 and the last dimension to be divisible by
16": the weight has a row for each output, and the second layer of an MLP gets the output of the first.
"""
LAYER_DTYPES = dict.fromkeys((*LAYERS, *(f"{_ENGINE}{name}" for name in ("LayerNorm", "RMSNorm"))), "params_dtype")
LAYER_DTYPES |= {f"{_ENGINE}{name}": "params_dtype" for name in ("TransformerLayer", "MultiheadAttention")}
"""Layer -> its argument for the dtype of its weights, which are float32 without it, and are what an optimizer updates.

Source: `torch.get_default_dtype() if params_dtype is None else params_dtype` in modules of transformer_engine 0.6 to
2.10. A float8 region copies them to float8; its own `FusedAdam(master_weights=True)` alone keeps float32 ones.
"""
REGIONS = frozenset(
    {
        *(f"{_ENGINE}{module}fp8_autocast" for module in ("", "fp8.", "quantization.")),
        *(f"{_ENGINE}{module}autocast" for module in ("", "quantization.")),
    }
)
"""Contexts in which layers compute in float8; `autocast` is the newer name, since 2.8.

Amax histories and scales of delayed scaling are updated, on all ranks together, at the exit of the outermost one: the
backward pass belongs outside ("Handling backward pass", user guide, versions 0.3 to 2.10).
"""
PLAIN_CHECKPOINTS = frozenset(f"torch.utils.checkpoint.{name}" for name in ("checkpoint", "checkpoint_sequential"))
"""Functions that recompute a segment without saving its scales, unlike `transformer_engine.pytorch.checkpoint`.

The recomputation then quantizes by other scales, or saves other tensors than the first run, which raises
(<https://github.com/NVIDIA/TransformerEngine/issues/415>).
"""
