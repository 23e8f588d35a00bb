"""The precision of DeepSpeed's engine, by configuration and version.

Source: its code, versions 0.16 to 0.19.6: `runtime/torch_autocast.py`, `runtime/precision_config.py` and
`runtime/config.py`.
"""

from __future__ import annotations

INITIALIZE = frozenset({"deepspeed.initialize"})
"""What returns the engine as the first of four."""
CONFIGS = ("config", "config_params", "deepspeed", "hf_ds_config")
"""Arguments that take a configuration: of `initialize`, of `TrainingArguments`, of Accelerate's plugin."""
CONFIGURED = ("deepspeed", "transformers", "trl", "accelerate")
"""The packages whose functions and classes take one."""
STRATEGY = ".DeepSpeedStrategy"
"""How the names of Lightning's classes end that take one."""
AUTOCAST = "torch_autocast"
"""The block that asks for PyTorch's autocast."""
PRECISIONS = ("fp16", "bf16")
"""The blocks of which only one may be enabled, in all versions."""
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
"""The settings of a scale of losses, which only the block "fp16" has."""
SCALE_POWER = ("initial_scale_power", 16)
"""The setting of the first scale, a power of 2, and its default."""
KNOWN_BY = frozenset(
    {
        *("train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization", "zero_allow_untested_optimizer"),
        *("gradient_accumulation_steps", "gradient_clipping", "steps_per_print", "wall_clock_breakdown"),
    }
)
"""Settings by which a dictionary that has a block for a precision is known for one of DeepSpeed's configurations."""
PARTITIONED = (("zero_optimization", "stage"), 2)
"""Since which stage of ZeRO a backward pass leaves no gradients on parameters: they are in the optimizer's buffers.

Source: `partition_grads` of `zero/stage3.py` and `independent_gradient_partition_epilogue` of `zero/stage_1_and_2.py`.
"""
CLIPPING = "gradient_clipping"
"""The norm that the engine clips gradients to; where it is 0 or missing, nothing clips them."""
AUTO = "auto"
"""What Transformers and Accelerate replace by what they were given themselves."""
HALF_BLOCKS = {"fp16": "fp16", "bf16": "bf16", "fp8": "bf16"}
"""Accelerate's mixed precision -> the block that it enables; the other one must not be (accelerate 1.15)."""
