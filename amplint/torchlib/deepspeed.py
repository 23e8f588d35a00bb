"""The precision of DeepSpeed's engine, by configuration and version.

Source: its code, versions 0.16 to 0.19.6: `runtime/torch_autocast.py`, `runtime/precision_config.py` and
`runtime/config.py`.
"""

from __future__ import annotations

INITIALIZE = frozenset({"deepspeed.initialize"})
"""Functions that return the engine as the first of four results."""
CONFIGS = ("config", "config_params", "deepspeed", "hf_ds_config")
"""Arguments for a configuration: of `initialize`, of `TrainingArguments`, of Accelerate's plugin."""
CONFIGURED = ("deepspeed", "transformers", "trl", "sentence_transformers", "accelerate")
"""The packages whose functions and classes have such an argument."""
STRATEGY = ".DeepSpeedStrategy"
"""The suffix of Lightning's classes with such an argument."""
AUTOCAST = "torch_autocast"
"""The block for PyTorch's autocast."""
PRECISIONS = ("fp16", "bf16")
"""The blocks of which only one may be enabled, in all versions."""
CONVERTS = {"fp16": "float16", "bf16": "bfloat16"}
"""The blocks that convert the model -> the dtype of its weights, and of what it returns.

Source: `_configure_distributed_model` and `forward` of `runtime/engine.py`.
"""
OF_BFLOAT16 = frozenset(
    {
        *("enabled", "immediate_grad_update", "check_grad_overflow"),
        *("bf16_master_weights_and_grads", "bf16_optimizer_states"),
    }
)
"""The settings of the block "bf16"; others are refused since `changes.SETTINGS_CHECKED`."""
OF_FLOAT16 = frozenset(
    {"loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis", "min_loss_scale"}
)
"""The settings of a loss scale, which only the block "fp16" has."""
CASTS_OF_FLOAT16 = frozenset({"auto_cast", "fp16_master_weights_and_grads"})
"""The other settings that only the block "fp16" has."""
SCALE_POWER = ("initial_scale_power", 16)
"""The setting of the initial loss scale, a power of 2, and its default."""
KNOWN_BY = frozenset(
    {
        *("train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization", "zero_allow_untested_optimizer"),
        *("gradient_accumulation_steps", "gradient_clipping", "steps_per_print", "wall_clock_breakdown"),
    }
)
"""Settings that identify a dictionary with a block for a precision as a configuration of DeepSpeed."""
STAGE = ("zero_optimization", "stage")
"""The setting of ZeRO's stage; 0, the default, disables it."""
WINDOW = "gradient_accumulation_steps"
"""The number of micro-batches whose gradients `engine.step()` adds up, by which `engine.backward()` divides."""
UNDIVIDED = ("scale_wrt_gas",)
"""Arguments by which `engine.backward()` is told not to. Source: `backward` of `runtime/engine.py`."""
PARTITIONED = (("zero_optimization", "stage"), 2)
"""The first stage of ZeRO whose backward pass leaves no gradients on parameters but in the optimizer's buffers.

Source: `partition_grads` of `zero/stage3.py` and `independent_gradient_partition_epilogue` of `zero/stage_1_and_2.py`.
"""
CLIPPING = "gradient_clipping"
"""The maximum norm to which the engine clips gradients; 0 or no setting disables clipping."""
AUTO = "auto"
"""The value that Transformers and Accelerate replace by their own settings."""
HALF_BLOCKS = {"fp16": "fp16", "bf16": "bf16", "fp8": "bf16"}
"""Accelerate's mixed precision -> the block that it enables; the other one must be disabled (accelerate 1.15)."""
ADDED_BLOCKS = {"16-mixed": "fp16", "16-true": "fp16", "bf16-mixed": "bf16", "bf16-true": "bf16"}
"""Precision of Lightning's Trainer -> the block that it enables, unless the configuration has it.

Where the other one is enabled, DeepSpeed raises AssertionError. Source: `_format_precision_config` in
`fabric/strategies/deepspeed.py` of lightning 2.0 to 2.6.
"""
