"""Mixed precision before PyTorch's own: NVIDIA's apex and OpenMMLab's mmcv 1.x."""

from __future__ import annotations

APEX_MODULES = ("apex.amp", "apex.fp16_utils")
INITIALIZE, SCALE_LOSS = "apex.amp.initialize", "apex.amp.scale_loss"
APEX = {
    "apex.amp.init": "torch.autocast('cuda') around the forward pass",
    INITIALIZE: "torch.amp.GradScaler('cuda'); model and optimizer stay as they are",
    SCALE_LOSS: "scaler.scale(loss).backward(), then scaler.step(optimizer) and scaler.update()",
    "apex.amp.master_params": "model.parameters(), after scaler.unscale_(optimizer)",
    "apex.amp.state_dict": "scaler.state_dict()",
    "apex.amp.load_state_dict": "scaler.load_state_dict()",
    "apex.amp.disable_casts": "torch.autocast('cuda', enabled=False)",
    "apex.fp16_utils.FP16_Optimizer": "torch.amp.GradScaler('cuda')",
}
"""Name in apex -> its equivalent in PyTorch."""

MMCV = {
    "auto_fp16": "torch.autocast('cuda') around the forward pass",
    "force_fp32": "torch.autocast('cuda', enabled=False), with .float() on what goes in",
    "wrap_fp16_model": "torch.autocast('cuda') around the forward pass",
    "Fp16OptimizerHook": "AmpOptimWrapper of mmengine",
    "GradientCumulativeFp16OptimizerHook": "AmpOptimWrapper of mmengine with accumulative_counts",
}
"""Last part of a name in mmcv 1.x and its dependents -> its present equivalent."""

MMCV_PACKAGES = ("mmcv-full", "mmcv")
"""The names under which mmcv 1.x is installed."""
MMCV_REMOVED_SINCE = (2, 0)
CAST_DECORATORS = frozenset({"auto_fp16", "force_fp32"})
SWITCH = "fp16_enabled"
"""The attribute of the object that these decorators test; without it they only call the method."""
PLAIN_BASES = frozenset({"mmcv.runner.BaseModule", "mmcv.runner.base_module.BaseModule"})
"""Base classes, besides those of `torch.nn`, that do not set it."""


def is_mmcv(name: str) -> bool:
    """Whether a qualified name belongs to mmcv 1.x's mixed precision, possibly re-exported by mmdet and others."""
    return name.startswith("mm") and "." in name and name.rpartition(".")[2] in MMCV
